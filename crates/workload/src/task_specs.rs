// SPDX-License-Identifier: GPL-2.0-only
//! The tasks of a workload, in little memory: equal tasks share their description, and copies of a
//! workload share the list of tasks.

use crate::program::{Attributes, SchedPolicy, TaskKind};
use serde::{Serialize, Serializer};
use std::ops::{Deref, DerefMut};
use std::slice;
use std::sync::Arc;

/// Description of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskSpec {
    /// Number of the process. Tasks with equal numbers are threads of one process.
    pub process: u32,
    /// All other properties. Tasks that are copies of each other share them until they are changed.
    kind: Arc<TaskKind>,
}

impl TaskKind {
    /// Returns a task with these properties in a process.
    #[must_use]
    pub fn in_process(self, process: u32) -> TaskSpec {
        let kind = Arc::new(self);
        TaskSpec { process, kind }
    }
}

impl TaskSpec {
    /// Returns a task with nice 0 that may use all CPUs and is created at the start.
    pub fn new(comm: impl Into<String>, program: u32, process: u32) -> TaskSpec {
        let kind = Arc::new(TaskKind {
            comm: comm.into(),
            program,
            policy: SchedPolicy::Normal { nice: 0 },
            cpus: None,
            start_cpu: None,
            start_ns: 0,
            cgroup: 0,
            spawn: true,
            footprint_bytes: 0,
            touch_mbps: None,
            attributes: Attributes::default(),
        });
        TaskSpec { process, kind }
    }

    /// Returns a copy of the task in a process.
    #[must_use]
    pub fn in_process(&self, process: u32) -> TaskSpec {
        let kind = Arc::clone(&self.kind);
        TaskSpec { process, kind }
    }
}

impl Deref for TaskSpec {
    type Target = TaskKind;

    #[inline]
    fn deref(&self) -> &TaskKind {
        &self.kind
    }
}

impl DerefMut for TaskSpec {
    fn deref_mut(&mut self) -> &mut TaskKind {
        Arc::make_mut(&mut self.kind)
    }
}

impl Serialize for TaskSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.process, &*self.kind).serialize(serializer)
    }
}

/// The tasks of a workload. A copy shares the memory of the original until one of them is changed, so
/// that a run needs no second list of a million tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskSpecs(Arc<Vec<TaskSpec>>);

impl Deref for TaskSpecs {
    type Target = Vec<TaskSpec>;

    #[inline]
    fn deref(&self) -> &Vec<TaskSpec> {
        &self.0
    }
}

impl DerefMut for TaskSpecs {
    fn deref_mut(&mut self) -> &mut Vec<TaskSpec> {
        Arc::make_mut(&mut self.0)
    }
}

impl From<Vec<TaskSpec>> for TaskSpecs {
    fn from(tasks: Vec<TaskSpec>) -> TaskSpecs {
        TaskSpecs(Arc::new(tasks))
    }
}

impl FromIterator<TaskSpec> for TaskSpecs {
    fn from_iter<I: IntoIterator<Item = TaskSpec>>(tasks: I) -> TaskSpecs {
        Vec::from_iter(tasks).into()
    }
}

impl<'a> IntoIterator for &'a TaskSpecs {
    type Item = &'a TaskSpec;
    type IntoIter = slice::Iter<'a, TaskSpec>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<'a> IntoIterator for &'a mut TaskSpecs {
    type Item = &'a mut TaskSpec;
    type IntoIter = slice::IterMut<'a, TaskSpec>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

impl Serialize for TaskSpecs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.as_slice().serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tasks;

    #[test]
    fn a_copy_shares_the_descriptions_until_it_is_changed() {
        let original = Tasks::default().add_many(2, "a", &[]).workload;
        let mut copy = original.clone();
        assert!(std::ptr::eq(original.tasks.as_slice(), copy.tasks.as_slice()));
        copy.tasks[1].start_ns = 7;
        assert_eq!((original.tasks[1].start_ns, copy.tasks[1].start_ns), (0, 7));
    }

    #[test]
    fn equal_tasks_share_their_description_until_one_is_changed() {
        let mut workload = crate::generator::generate("sleepers:n=3,footprint=1k").expect("the workload is valid");
        let shared = |a: usize, b: usize| move |tasks: &[TaskSpec]| std::ptr::eq(&*tasks[a], &*tasks[b]);
        assert!(shared(0, 1)(&workload.tasks) && shared(1, 2)(&workload.tasks));
        workload.tasks[1].start_ns = 7;
        assert!(shared(0, 2)(&workload.tasks) && !shared(0, 1)(&workload.tasks));
        let described: Vec<_> = workload.tasks.iter().map(|t| (t.process, t.start_ns)).collect();
        assert_eq!(described, [(0, 0), (1, 7), (2, 0)]);
    }
}
