// SPDX-License-Identifier: GPL-2.0-only
//! A consumer of records (sink) that passes the records on to several other sinks.

use crate::event::{Record, Sink};

/// Passes every batch to each of its sinks, in the order in which they were added.
#[derive(Default)]
pub struct Tee<'a> {
    sinks: Vec<&'a mut dyn Sink>,
}

impl<'a> Tee<'a> {
    pub fn new() -> Tee<'a> {
        Tee::default()
    }

    /// Adds a sink.
    pub fn with(mut self, sink: &'a mut dyn Sink) -> Tee<'a> {
        self.sinks.push(sink);
        self
    }
}

impl Sink for Tee<'_> {
    fn take(&mut self, records: &[Record]) {
        for sink in &mut self.sinks {
            sink.take(records);
        }
    }
}

/// A vector is a sink that keeps all records. It is meant for tests and for short windows of time.
impl Sink for Vec<Record> {
    fn take(&mut self, records: &[Record]) {
        self.extend_from_slice(records);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Event, Hash};

    #[test]
    fn every_sink_gets_every_batch() {
        let (mut kept, mut hash) = (Vec::new(), Hash::default());
        let mut tee = Tee::new().with(&mut kept).with(&mut hash);
        let records = [Event::Ipi { target: 0 }, Event::TaskExit { pid: 1 }].map(|event| Record {
            time: 1,
            cpu: 0,
            after: 0,
            event,
        });
        tee.take(&records[..1]);
        tee.take(&records[1..]);
        assert_eq!(kept, records);
        assert_eq!(hash.count(), 2);
    }
}
