// SPDX-License-Identifier: GPL-2.0-only
//! A table in memory that other packages read without copying.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchIterator};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// A table of a run, with named columns. Polars, pandas, pyarrow and DuckDB read it through the
/// Arrow PyCapsule interface, for example `polars.DataFrame(table)`.
#[pyclass(frozen, module = "windtunnel")]
pub struct Table {
    pub batch: RecordBatch,
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
