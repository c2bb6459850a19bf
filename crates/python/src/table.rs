// SPDX-License-Identifier: GPL-2.0-only
//! A table in memory that other packages read without copying.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array};
use arrow_schema::{Field, Schema};
use lab::sweep::table::{self, Column};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// A table of a run, with named columns. Polars, pandas, pyarrow and DuckDB read it through the
/// Arrow PyCapsule interface, for example `polars.DataFrame(table)`.
#[pyclass(frozen, module = "windtunnel")]
pub struct Table {
    pub batch: RecordBatch,
}

impl From<table::Table> for Table {
    fn from(table: table::Table) -> Table {
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (name, column) in table.columns {
            let (nullable, column): (bool, ArrayRef) = match column {
                Column::Texts(values) => (true, Arc::new(StringArray::from(values))),
                Column::Numbers(values) => (false, Arc::new(UInt64Array::from(values))),
                Column::Floats(values) => (true, Arc::new(Float64Array::from(values))),
            };
            fields.push(Field::new(name, column.data_type().clone(), nullable));
            columns.push(column);
        }
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
        Table {
            batch: batch.expect("every column has one value for each row"),
        }
    }
}

#[pymethods]
impl Table {
    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        let schema = self.batch.schema();
        schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __repr__(&self) -> String {
        format!(
            "<windtunnel.Table: {} rows of {}>",
            self.batch.num_rows(),
            self.columns().join(", ")
        )
    }

    /// The table as a stream of Arrow record batches (Arrow PyCapsule interface). A requested
    /// schema is ignored, as the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
