// SPDX-License-Identifier: GPL-2.0-only
//! Builds the columns of a table.

use arrow_array::types::UInt16Type;
use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Int32Array, RecordBatch, StringArray, UInt16Array, UInt32Array,
    UInt64Array,
};
use arrow_schema::{Field, Schema};
use std::sync::Arc;

/// A column whose values are words from a fixed list.
#[derive(Default)]
pub struct Words {
    list: Vec<String>,
    rows: Vec<u16>,
}

impl Words {
    pub fn new<'a>(list: impl IntoIterator<Item = &'a str>) -> Words {
        Words {
            list: list.into_iter().map(str::to_owned).collect(),
            rows: Vec::new(),
        }
    }

    /// Appends a row with the word `index` of the list.
    pub fn push(&mut self, index: u16) {
        // A trace file may contain a number for which the list has no word. The word for this
        // number is then `?`.
        let named = usize::from(index) < self.list.len();
        if !named {
            self.list.resize(usize::from(index) + 1, "?".to_owned());
        }
        self.rows.push(index);
    }
}

/// A table whose columns are added one after the other.
#[derive(Default)]
pub struct Table {
    fields: Vec<Field>,
    columns: Vec<ArrayRef>,
}

impl Table {
    pub fn u64(self, name: &str, rows: Vec<u64>) -> Table {
        self.column(name, false, Arc::new(UInt64Array::from(rows)))
    }

    pub fn u32(self, name: &str, rows: Vec<u32>) -> Table {
        self.column(name, false, Arc::new(UInt32Array::from(rows)))
    }

    pub fn i32(self, name: &str, rows: Vec<i32>) -> Table {
        self.column(name, false, Arc::new(Int32Array::from(rows)))
    }

    pub fn optional_u64(self, name: &str, rows: Vec<Option<u64>>) -> Table {
        self.column(name, true, Arc::new(UInt64Array::from(rows)))
    }

    pub fn optional_u32(self, name: &str, rows: Vec<Option<u32>>) -> Table {
        self.column(name, true, Arc::new(UInt32Array::from(rows)))
    }

    pub fn flags(self, name: &str, rows: Vec<bool>) -> Table {
        self.column(name, false, Arc::new(BooleanArray::from(rows)))
    }

    pub fn texts(self, name: &str, rows: Vec<String>) -> Table {
        self.column(name, false, Arc::new(StringArray::from(rows)))
    }

    pub fn words(self, name: &str, words: Words) -> Table {
        let list = Arc::new(StringArray::from(words.list));
        // Words::push() extends the list, so every row has a word.
        let column = DictionaryArray::<UInt16Type>::new(UInt16Array::from(words.rows), list);
        self.column(name, false, Arc::new(column))
    }

    fn column(mut self, name: &str, nullable: bool, column: ArrayRef) -> Table {
        self.fields.push(Field::new(name, column.data_type().clone(), nullable));
        self.columns.push(column);
        self
    }

    /// Returns the finished table. All columns have the same number of rows.
    pub fn batch(self) -> RecordBatch {
        let schema = Arc::new(Schema::new(self.fields));
        RecordBatch::try_new(schema, self.columns).expect("each record adds one row to every column of its table")
    }
}
