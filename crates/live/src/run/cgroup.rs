// SPDX-License-Identifier: GPL-2.0-only
//! Creates the cgroups of a workload below a new cgroup `windtunnel-PID`, and removes them all
//! afterwards.
//!
//! With cgroup version 2, the created cgroups are threaded. Version 1 is used if only a hierarchy
//! of version 1 has the cpu controller.

use input::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use workload::Cgroup;

/// The cgroups that were created. Dropping this value removes them.
pub struct Cgroups {
    /// Directory of the cgroup that represents the workload's root cgroup.
    folder: PathBuf,
    /// All created directories, parents before children.
    made: Vec<PathBuf>,
}

/// The mounted cgroup hierarchy that has the cpu controller: its version and its mount point.
enum Hierarchy {
    V1(PathBuf),
    V2(PathBuf),
}

impl Cgroups {
    /// Creates the workload's cgroups with their weights.
    ///
    /// # Errors
    /// A message that says why no cgroups can be created, and what the user can do about it.
    pub fn make(cgroups: &[Cgroup]) -> Result<Cgroups, Error> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let hierarchy = find(&mounts, |path| {
            fs::read_to_string(path.join("cgroup.controllers")).unwrap_or_default()
        })?;
        let (Hierarchy::V1(root) | Hierarchy::V2(root)) = &hierarchy;
        let mut own = Cgroups {
            folder: root.join(format!("windtunnel-{}", std::process::id())),
            made: Vec::new(),
        };
        own.fill(cgroups, &hierarchy)
            .map_err(|(path, error)| format!("cgroups are left out: {}: {error}; run as root", path.display()))?;
        Ok(own)
    }

    fn fill(&mut self, cgroups: &[Cgroup], hierarchy: &Hierarchy) -> Result<(), (PathBuf, io::Error)> {
        let with_path = |path: &Path| {
            let path = path.to_owned();
            move |error| (path, error)
        };
        let write = |path: PathBuf, text: &str| fs::write(&path, text).map_err(with_path(&path));
        if let Hierarchy::V2(root) = hierarchy {
            write(root.join("cgroup.subtree_control"), "+cpu")?;
        }
        let mut paths: Vec<(PathBuf, Option<u32>)> = vec![(self.folder.clone(), None)];
        for cgroup in cgroups.iter().skip(1) {
            let mut path = self.folder.clone();
            for part in cgroup.path.split('/').filter(|part| !part.is_empty() && *part != "..") {
                path.push(part);
                if !paths.iter().any(|(known, _)| *known == path) {
                    paths.push((path.clone(), None));
                }
            }
            if let Some((_, weight)) = paths.iter_mut().find(|(known, _)| *known == path) {
                *weight = Some(cgroup.weight);
            }
        }
        for (path, weight) in paths {
            fs::create_dir(&path).map_err(with_path(&path))?;
            self.made.push(path.clone());
            match hierarchy {
                Hierarchy::V1(_) => {
                    if let Some(weight) = weight {
                        write(path.join("cpu.shares"), &(u64::from(weight) * 1024 / 100).to_string())?;
                    }
                }
                Hierarchy::V2(_) if path == self.folder => {}
                Hierarchy::V2(_) => {
                    // Only threaded cgroups can separate the threads of one process.
                    write(path.join("cgroup.type"), "threaded")?;
                    if let Some(parent) = path.parent() {
                        write(parent.join("cgroup.subtree_control"), "+cpu")?;
                    }
                    if let Some(weight) = weight {
                        write(path.join("cpu.weight"), &weight.to_string())?;
                    }
                }
            }
        }
        Ok(())
    }

    pub fn folder(&self) -> String {
        self.folder.display().to_string()
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for path in self.made.iter().rev() {
            // While tasks are still exiting, the cgroup is busy and cannot be removed.
            for _ in 0..100 {
                match fs::remove_dir(path) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        thread::sleep(Duration::from_millis(5));
                    }
                    _ => break,
                }
            }
        }
    }
}

/// Moves the calling process to a cgroup below the root. Version 2 requires this before the threads
/// of the process can enter threaded cgroups.
pub fn enter_process(folder: &str) -> io::Result<()> {
    let folder = Path::new(folder);
    fs::write(folder.join("cgroup.procs"), "0")
}

/// Moves a thread into the cgroup that the workload calls `path`.
pub fn enter(folder: &str, path: &str, tid: u32) -> io::Result<()> {
    let cgroup = Path::new(folder).join(path.trim_start_matches('/'));
    let threads = cgroup.join("cgroup.threads");
    let file = if threads.exists() {
        threads
    } else {
        cgroup.join("tasks")
    };
    fs::write(file, tid.to_string())
}

/// Finds the cgroup hierarchy with the cpu controller in the text of /proc/self/mounts.
fn find(mounts: &str, controllers: impl Fn(&Path) -> String) -> Result<Hierarchy, Error> {
    let mut version_2 = None;
    let mut version_1 = None;
    for mount in mounts.lines() {
        let mut words = mount.split_whitespace().skip(1);
        let (Some(path), Some(kind), Some(options)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let path = PathBuf::from(path);
        match kind {
            "cgroup2" if controllers(&path).split_whitespace().any(|name| name == "cpu") => version_2 = Some(path),
            "cgroup" if options.split(',').any(|option| option == "cpu") => version_1 = Some(path),
            _ => {}
        }
    }
    version_2
        .map(Hierarchy::V2)
        .or(version_1.map(Hierarchy::V1))
        .ok_or_else(|| {
            Error::new("cgroups are left out: no mounted cgroup hierarchy has the cpu controller; mount one: mount -t cgroup2 none /sys/fs/cgroup")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2_is_preferred_if_it_has_the_cpu_controller() {
        let mounts = "cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu,cpuacct 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        let found = |controllers: &'static str| find(mounts, move |_| controllers.to_owned());
        assert!(matches!(found("io cpu memory"), Ok(Hierarchy::V2(path)) if path.ends_with("unified")));
        assert!(matches!(found("cpuset io"), Ok(Hierarchy::V1(path)) if path.ends_with("cpu")));
        let none = find("proc /proc proc rw 0 0\n", |_| String::new());
        assert!(none.is_err_and(|error| error.message.contains("left out")));
    }
}
