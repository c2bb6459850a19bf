// SPDX-License-Identifier: GPL-2.0-only
//! The elements beside the tree of objects: kinds of CPUs and distances between NUMA nodes.

use super::Reader;
use crate::MAX_CPUS;
use crate::bitmap::Bitmap;
use crate::parts::Distances;
use crate::speed::Speed;
use input::Error;
use roxmltree::Node;

impl<'a, 'input> Reader<'a, 'input> {
    /// Returns the properties of all CPUs that determine their speed. The list is indexed by the
    /// CPUs' OS indexes. If a property has several values, the first is used.
    pub(super) fn speeds(&self, root: Node<'a, 'input>) -> Result<Vec<Speed>, Error> {
        let last = self.cpus.iter().map(|cpu| cpu.os_index).max();
        let mut speeds = vec![Speed::default(); last.map_or(0, |last| last as usize + 1)];
        for kind in root.children().filter(|child| child.has_tag_name("cpukind")) {
            let cpuset = Bitmap::parse(kind.attribute("cpuset").unwrap_or(""))
                .map_err(|message| self.attribute_error(kind, "cpuset", format!("cpuset {message}")))?;
            let info = |name: &str| {
                let mut infos = kind.children().filter(|child| child.has_tag_name("info"));
                infos
                    .find(|info| info.attribute("name") == Some(name))?
                    .attribute("value")
            };
            let number = |name: &str| info(name).and_then(|value| value.parse().ok());
            let (capacity, max_mhz) = (number("LinuxCapacity"), number("FrequencyMaxMHz"));
            let core_type = info("CoreType");
            let efficiency = kind.attribute("forced_efficiency").and_then(|value| value.parse().ok());
            for cpu in cpuset.iter() {
                let Some(speed) = speeds.get_mut(cpu as usize) else {
                    break;
                };
                speed.capacity = speed.capacity.or(capacity);
                speed.max_mhz = speed.max_mhz.or(max_mhz);
                speed.efficiency = speed.efficiency.or(efficiency);
                if speed.core_type.is_none() {
                    speed.core_type = core_type.map(str::to_owned);
                }
            }
        }
        Ok(speeds)
    }

    /// Reads the distances between NUMA nodes.
    pub(super) fn distances(&self, root: Node) -> Result<Vec<Distances>, Error> {
        let mut matrices = Vec::new();
        for element in root.children().filter(|child| child.has_tag_name("distances2")) {
            let at = element.range().start;
            let n = self.number_of_objects(element)?;
            let numbers = |name: &str, count: usize| {
                let lists = element.children().filter(|child| child.has_tag_name(name));
                let texts = lists.filter_map(|list| list.text()).flat_map(str::split_whitespace);
                let values: Result<Vec<u64>, _> = texts.map(str::parse).collect();
                let values = values.ok().filter(|values| values.len() == count);
                values.ok_or_else(|| self.error(at, format!("<{name}> in <distances2> must contain {count} numbers")))
            };
            let (nodes, values) = (numbers("indexes", n)?, numbers("u64values", n * n)?);
            // "NUMALatency" is the SLIT, the firmware's table of distances. Matrices of bandwidths
            // are not used, because their larger values mean nearer nodes.
            let latency = element.attribute("name").is_none_or(|name| name == "NUMALatency");
            let between_nodes =
                element.attribute("type") == Some("NUMANode") && element.attribute("indexing") == Some("os");
            if latency && between_nodes {
                let nodes = nodes
                    .into_iter()
                    .map(|node| u32::try_from(node).unwrap_or(u32::MAX))
                    .collect();
                matrices.push(Distances { nodes, values });
            }
        }
        Ok(matrices)
    }

    /// Reads the distances between NUMA nodes from a file of version 1. The machine contains
    /// matrices of floating-point numbers, in units of `latency_base`. A matrix with as many rows as
    /// there are nodes is about the nodes, in the order of the file.
    pub(super) fn distances_in_order(&self, machine: Node) -> Result<Vec<Distances>, Error> {
        let mut matrices = Vec::new();
        for element in machine.children().filter(|child| child.has_tag_name("distances")) {
            let n = self.number_of_objects(element)?;
            let float = |node: Node, name: &str| {
                let number = node.attribute(name).and_then(|text| text.parse::<f64>().ok());
                let number = number.filter(|number| (0.0..1e9).contains(number));
                number.ok_or_else(|| self.attribute_error(node, name, format!("{name} is not a number up to 10^9")))
            };
            let base = float(element, "latency_base")?;
            let latencies = element.children().filter(|child| child.has_tag_name("latency"));
            let values: Vec<f64> = latencies
                .map(|latency| float(latency, "value"))
                .collect::<Result<_, _>>()?;
            if values.len() != n * n {
                let message = format!("<distances> has {} latencies, expected {n} x {n}", values.len());
                return Err(self.error(element.range().start, message));
            }
            if n == self.node_order.len() {
                matrices.push(Distances {
                    nodes: self.node_order.clone(),
                    values: values.iter().map(|value| rounded(value * base)).collect(),
                });
            }
        }
        Ok(matrices)
    }

    fn number_of_objects(&self, element: Node) -> Result<usize, Error> {
        let name = element.tag_name().name();
        let text = element
            .attribute("nbobjs")
            .ok_or_else(|| self.error(element.range().start, format!("<{name}> has no nbobjs")))?;
        let n = text.parse::<usize>().ok().filter(|&n| n <= MAX_CPUS as usize);
        n.ok_or_else(|| {
            let message = format!("nbobjs is {text}, expected a number up to {MAX_CPUS}");
            self.attribute_error(element, "nbobjs", message)
        })
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn rounded(value: f64) -> u64 {
    value.round() as u64
}
