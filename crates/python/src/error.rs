// SPDX-License-Identifier: GPL-2.0-only
//! Errors of inputs as Python exceptions.

use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyDict;

pyo3::create_exception!(_windtunnel, Error, PyException, "An input that cannot be used.");

/// Converts an error into an exception. Its attributes are the fields of the error.
pub fn exception(error: &input::Error) -> PyErr {
    Python::attach(|py| {
        let exception = PyErr::new::<Error, _>(error.to_string());
        let fields = || -> PyResult<()> {
            let value = exception.value(py);
            let fields = PyDict::new(py);
            fields.set_item("kind", "input")?;
            fields.set_item("message", &error.message)?;
            fields.set_item("place", Some(&error.place).filter(|place| !place.is_empty()))?;
            fields.set_item("line", error.position.map(|position| position.line))?;
            fields.set_item("column", error.position.map(|position| position.column))?;
            fields.set_item("hint", error.hint.as_ref())?;
            for (name, field) in fields {
                value.setattr(name.extract::<String>()?.as_str(), field)?;
            }
            Ok(())
        };
        fields().err().unwrap_or(exception)
    })
}
