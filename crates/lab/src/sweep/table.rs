// SPDX-License-Identifier: GPL-2.0-only
//! Tables in Parquet files. Only the column types of a sweep are supported, so that the command
//! needs no Arrow crates, which take longer to compile than the rest of the format.

use input::error::Error;
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use runner::destination::Destination;
use std::path::Path;
use std::sync::Arc;

/// The values of a column, one for each row.
#[derive(Clone, Debug, PartialEq)]
pub enum Column {
    Texts(Vec<Option<String>>),
    /// Whole numbers that are never missing.
    Numbers(Vec<u64>),
    Floats(Vec<Option<f64>>),
}

/// A table: the names and the values of its columns, which all have the same number of rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub columns: Vec<(String, Column)>,
}

impl Column {
    fn len(&self) -> usize {
        match self {
            Column::Texts(values) => values.len(),
            Column::Numbers(values) => values.len(),
            Column::Floats(values) => values.len(),
        }
    }
}

impl Table {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, column)| column.len())
    }

    /// Returns a column, if the table has one with this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        let mut columns = self.columns.iter();
        columns.find(|(known, _)| known == name).map(|(_, column)| column)
    }

    fn schema(&self) -> Result<Type, ParquetError> {
        let fields = self.columns.iter().map(|(name, column)| {
            let (physical, logical) = match column {
                Column::Texts(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
                Column::Numbers(_) => (Physical::INT64, Some(LogicalType::integer(64, false))),
                Column::Floats(_) => (Physical::DOUBLE, None),
            };
            let repetition = match column {
                Column::Numbers(_) => Repetition::REQUIRED,
                Column::Texts(_) | Column::Floats(_) => Repetition::OPTIONAL,
            };
            let field = Type::primitive_type_builder(name, physical)
                .with_logical_type(logical)
                .with_repetition(repetition);
            Ok(Arc::new(field.build()?))
        });
        let fields = fields.collect::<Result<_, ParquetError>>()?;
        Type::group_type_builder("sweep").with_fields(fields).build()
    }
}

/// A Parquet file that is being written. It gets its final name when it is complete.
pub struct File {
    writer: SerializedFileWriter<Destination>,
}

impl File {
    /// Starts a file for tables with the columns of `empty`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn open(path: &Path, empty: &Table) -> Result<File, Error> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by("windtunnel".to_owned())
            .build();
        let destination = Destination::open(path)?;
        let writer = empty
            .schema()
            .and_then(|schema| SerializedFileWriter::new(destination, Arc::new(schema), Arc::new(properties)));
        writer.map(|writer| File { writer }).map_err(|error| failed(&error))
    }

    /// Writes the rows of a table as one group.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, table: &Table) -> Result<(), Error> {
        self.write_group(table).map_err(|error| failed(&error))
    }

    fn write_group(&mut self, table: &Table) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let mut columns = table.columns.iter();
        while let (Some(mut writer), Some((_, column))) = (group.next_column()?, columns.next()) {
            match column {
                Column::Numbers(values) => {
                    let values: Vec<i64> = values.iter().map(|value| value.cast_signed()).collect();
                    writer.typed::<Int64Type>().write_batch(&values, None, None)?;
                }
                Column::Texts(values) => {
                    let levels: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
                    let values: Vec<ByteArray> = values.iter().flatten().map(|text| text.as_str().into()).collect();
                    writer
                        .typed::<ByteArrayType>()
                        .write_batch(&values, Some(&levels), None)?;
                }
                Column::Floats(values) => {
                    let levels: Vec<i16> = values.iter().map(|value| value.is_some().into()).collect();
                    let values: Vec<f64> = values.iter().flatten().copied().collect();
                    writer.typed::<DoubleType>().write_batch(&values, Some(&levels), None)?;
                }
            }
            writer.close()?;
        }
        group.close().map(drop)
    }

    /// Completes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> Result<(), Error> {
        self.writer.into_inner().map_err(|error| failed(&error))?.commit()
    }
}

fn failed(error: &ParquetError) -> Error {
    Error::new(format!("the Parquet file cannot be written: {error}"))
}

/// Reads a table of at most `max_rows` rows. Columns of types that no table of a sweep has are left
/// out.
///
/// # Errors
/// The file cannot be read, is damaged, or has too many rows.
pub fn read(path: &Path, max_rows: usize) -> Result<Table, Error> {
    let file = std::fs::File::open(path).map_err(|error| Error::io(path, &error))?;
    let damaged = |error: ParquetError| Error::at(path.display().to_string(), error.to_string());
    let reader = SerializedFileReader::new(file).map_err(damaged)?;
    let rows = reader.metadata().file_metadata().num_rows();
    if usize::try_from(rows).is_ok_and(|rows| rows > max_rows) {
        let message = format!("the table has more than {max_rows} rows");
        return Err(Error::at(path.display().to_string(), message));
    }
    let mut table = Table::default();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).map_err(damaged)?;
        read_group(&*group, max_rows, &mut table).map_err(damaged)?;
    }
    let rows = table.rows();
    if let Some((name, _)) = table.columns.iter().find(|(_, column)| column.len() != rows) {
        let message = format!("column '{name}' does not have {rows} rows");
        return Err(Error::at(path.display().to_string(), message));
    }
    Ok(table)
}

/// Appends the rows of a group.
fn read_group(group: &dyn RowGroupReader, max_rows: usize, table: &mut Table) -> Result<(), ParquetError> {
    let mut columns = Vec::new();
    for (index, described) in group.metadata().columns().iter().enumerate() {
        let name = described.column_path().string();
        let column = match described.column_type() {
            _ if described.column_descr().max_rep_level() > 0 || described.column_descr().max_def_level() > 1 => {
                continue;
            }
            Physical::BYTE_ARRAY => {
                let values = values::<ByteArrayType>(group, index, max_rows)?;
                let text = |bytes: ByteArray| Ok(bytes.as_utf8()?.to_owned());
                let texts = values.into_iter().map(|value| value.map(text).transpose());
                Column::Texts(texts.collect::<Result<_, ParquetError>>()?)
            }
            Physical::INT64 => {
                let values = values::<Int64Type>(group, index, max_rows)?.into_iter();
                Column::Numbers(values.map(|value| value.unwrap_or(0).cast_unsigned()).collect())
            }
            Physical::DOUBLE => Column::Floats(values::<DoubleType>(group, index, max_rows)?),
            _ => continue,
        };
        columns.push((name, column));
    }
    if table.columns.is_empty() {
        table.columns = columns;
        return Ok(());
    }
    for ((_, column), (name, more)) in table.columns.iter_mut().zip(columns) {
        match (column, more) {
            (Column::Texts(column), Column::Texts(more)) => column.extend(more),
            (Column::Numbers(column), Column::Numbers(more)) => column.extend(more),
            (Column::Floats(column), Column::Floats(more)) => column.extend(more),
            _ => return Err(ParquetError::General(format!("column '{name}' has two types"))),
        }
    }
    Ok(())
}

/// Returns the values of a column in a group.
fn values<T: DataType>(
    group: &dyn RowGroupReader,
    index: usize,
    max_rows: usize,
) -> Result<Vec<Option<T::T>>, ParquetError> {
    let is_optional = group.metadata().column(index).column_descr().max_def_level() > 0;
    let mut reader = get_typed_column_reader::<T>(group.get_column_reader(index)?);
    let (mut levels, mut values) = (Vec::new(), Vec::new());
    reader.read_records(max_rows, Some(&mut levels), None, &mut values)?;
    if !is_optional {
        return Ok(values.into_iter().map(Some).collect());
    }
    let mut values = values.into_iter();
    let value = |&level: &i16| if level > 0 { values.next() } else { None };
    Ok(levels.iter().map(value).collect())
}
