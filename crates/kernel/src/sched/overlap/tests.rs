// SPDX-License-Identifier: GPL-2.0-only
use crate::sched::overlap::state::Needs;
use crate::simulation::event::Event;
use crate::testbed::*;
use workload::{Dist, Op};

#[test]
fn a_timer_of_an_offline_cpu_needs_the_cpu_that_it_interrupts() {
    let mut bed = Bed::default();
    bed.pinned(0, hog());
    bed.pinned(1, vec![Op::Run(Dist::Fixed(10 * US)), Op::Sleep(Dist::Fixed(SECOND))]);
    let (mut m, _) = bed.run(free(spec(1, 1, 2, 1)), MS);
    let wake = Event::Wake {
        task: nth(1),
        generation: m.tasks[1].wake_generation,
    };
    assert!(matches!(m.needs(&wake), Needs::Cpu(cpu) if cpu == cpu_id(1)));
    m.hotplug(cpu_id(1), false);
    assert!(matches!(m.needs(&wake), Needs::Cpu(cpu) if cpu == cpu_id(0)));
}
