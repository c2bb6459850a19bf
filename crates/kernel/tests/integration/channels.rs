// SPDX-License-Identifier: GPL-2.0-only
//! Tests of pipes, sockets and local TCP connections ("channels"). They check when readers and
//! writers wait, and what messages cost. All costs of kernel work are zero, except for the cost
//! that is tested.

use crate::support::*;
use kernel::Ended;
use machine::{Channels, MachineSpec, MessageCosts};
use trace::{Event, Record};
use workload::{Channel, Op, Resource};

/// Returns a channel that can contain `capacity` bytes.
fn channel(capacity: u64, kind: Channel) -> Resource {
    Resource::Channel {
        name: "c".into(),
        capacity,
        kind,
    }
}

#[test]
fn a_full_pipe_blocks_its_writer_and_an_empty_one_its_reader() {
    let send = Op::Send { channel: 0, bytes: 100 };
    let tasks = Tasks::default()
        .resources(vec![channel(200, Channel::Pipe)])
        .add(
            "writer",
            vec![sleep_ms(2), send.clone(), send.clone(), send.clone(), send],
        )
        .add(
            "reader",
            vec![Op::Recv(0), run_ms(3), Op::Recv(0), run_ms(3), Op::Recv(0), Op::Recv(0)],
        );
    let (records, ended) = run(2, tasks);
    assert_eq!(starts(&records, 2)[..2], [0, 2]);
    // The first message wakes the reader. The third message fits into the pipe only after the
    // reader has read once. The fourth message has to wait for the reader's second read.
    assert_eq!(starts(&records, 1), [0, 2, 2, 5]);
    assert_eq!(ended, Ended::AllExited);
}

#[test]
fn a_socket_wakes_all_its_writers_when_a_quarter_is_left() {
    let send = || Op::Send { channel: 0, bytes: 100 };
    let read = || vec![run_ms(1), Op::Recv(0)];
    let tasks = Tasks::default()
        .resources(vec![channel(400, Channel::Socket)])
        .add("filler", vec![send(), send(), send(), send()])
        .add("w1", vec![run_ms(1), send()])
        .add("w2", vec![run_ms(1), send()])
        .add(
            "reader",
            [vec![run_ms(1)], read(), read(), read(), read(), read(), read()].concat(),
        );
    let (records, ended) = run(4, tasks);
    // The reader reads at 2, 3 and 4 ms. After the third read, one of the four messages is left, so
    // both writers are woken.
    assert_eq!((starts(&records, 2), starts(&records, 3)), (vec![0, 4], vec![0, 4]));
    assert_eq!(ended, Ended::AllExited);
}

#[test]
fn a_message_costs_what_its_kind_and_its_bytes_cost() {
    type Row = fn(&mut Channels) -> &mut MessageCosts;
    let rows: [(Channel, Row); 5] = [
        (Channel::Pipe, |rows| &mut rows.pipe),
        (Channel::Socket, |rows| &mut rows.unix_stream),
        (Channel::Datagram, |rows| &mut rows.unix_datagram),
        (Channel::Tcp, |rows| &mut rows.tcp),
        (Channel::Eventfd, |rows| &mut rows.eventfd),
    ];
    for (kind, row) in rows {
        let mut spec = free(1);
        *row(&mut spec.costs.channel) = MessageCosts {
            send_ns: 10_000,
            recv_ns: 20_000,
            byte_ps: 1_000_000,
            ..MessageCosts::default()
        };
        let tasks = Tasks::default()
            .resources(vec![channel(1000, kind)])
            .add("w", vec![Op::Send { channel: 0, bytes: 5 }])
            .add("r", vec![Op::Recv(0)]);
        let (_, records, _) = draw(spec, tasks, END, MS);
        // The writer and the reader each pay 5 us for the five bytes. The writer is dead only after
        // the reader has run, because a task that exits is queued again.
        assert_eq!(stop_ns(&records, 2), 15_000 + 25_000, "{kind:?}");
    }
}

#[test]
fn messages_beyond_the_caches_of_freed_memory_cost_more() {
    let mut spec = free(1);
    spec.costs.channel.unix_stream = MessageCosts {
        alloc_ns: 10_000,
        free_ns: 1_000,
        cached: 2,
        ..MessageCosts::default()
    };
    let send = || Op::Send { channel: 0, bytes: 100 };
    let recv = || Op::Recv(0);
    let tasks = Tasks::default()
        .resources(vec![channel(1000, Channel::Socket)])
        // The caches have memory for two of the three messages.
        .add("w", vec![send(), send(), send(), sleep_ms(2), send(), send(), send()])
        // Two of the three messages fit into the caches when they are freed. The last message of the
        // writer therefore needs new memory again.
        .add("r", vec![sleep_ms(1), recv(), recv(), recv()]);
    let (_, records, _) = draw(spec, tasks, END, MS);
    let stops = |pid| {
        let stop = |record: &Record| match record.event {
            Event::Switch { prev, .. } if prev == pid => Some(record.time % MS),
            _ => None,
        };
        records.iter().filter_map(stop).collect::<Vec<_>>()
    };
    assert_eq!(stops(1), [10_000, 20_000]);
    assert_eq!(stops(2), [10_000, 11_000]);
}

#[test]
fn poll_wakes_all_its_callers_and_leaves_the_message() {
    let tasks = Tasks::default()
        .resources(vec![channel(100, Channel::Pipe)])
        .add("a", vec![Op::Poll(0), run_ms(1)])
        .add("b", vec![Op::Poll(0), run_ms(1)])
        .add("w", vec![sleep_ms(2), Op::Send { channel: 0, bytes: 1 }])
        .add("late", vec![sleep_ms(3), Op::Poll(0), Op::Recv(0)]);
    let (records, ended) = run(4, tasks);
    assert_eq!((starts(&records, 1), starts(&records, 2)), (vec![0, 2], vec![0, 2]));
    // The first two tasks left the message in the pipe, so the last task finds it and does not
    // wait.
    assert_eq!(starts(&records, 4), [0, 3]);
    assert_eq!(ended, Ended::AllExited);
}

/// Returns the pids of woken tasks in the order of their wake-ups, without the wake-ups of timers.
fn woken(records: &[Record]) -> Vec<u32> {
    let woken = |record: &Record| match record.event {
        Event::Waking { pid, waker } if waker != 0 => Some(pid),
        _ => None,
    };
    records.iter().filter_map(woken).collect()
}

#[test]
fn the_last_poller_is_woken_first() {
    let tasks = Tasks::default()
        .resources(vec![channel(100, Channel::Pipe)])
        .add("a", vec![Op::Poll(0)])
        .add("b", vec![sleep_ms(1), Op::Poll(0)])
        .add("c", vec![sleep_ms(2), Op::Poll(0)])
        .add("w", vec![sleep_ms(3), Op::Send { channel: 0, bytes: 1 }]);
    assert_eq!(woken(&run(4, tasks).0), [3, 2, 1]);
}

#[test]
fn the_last_writer_of_a_stream_is_woken_first_and_of_a_pipe_last() {
    let order = |kind| {
        let send = || Op::Send { channel: 0, bytes: 100 };
        let tasks = Tasks::default()
            .resources(vec![channel(100, kind)])
            .add("filler", vec![send()])
            .add("a", vec![sleep_ms(1), send()])
            .add("b", vec![sleep_ms(2), send()])
            .add(
                "reader",
                vec![sleep_ms(3), Op::Recv(0), run_ms(1), Op::Recv(0), run_ms(1), Op::Recv(0)],
            );
        woken(&run(4, tasks).0)
    };
    assert_eq!(order(Channel::Socket)[..2], [3, 2]);
    assert_eq!(order(Channel::Tcp)[..2], [3, 2]);
    assert_eq!(order(Channel::Pipe)[..2], [2, 3]);
}

#[test]
fn a_message_of_an_eventfd_wakes_all_readers_and_one_gets_it() {
    let starts_of_second_reader = |kind| {
        let send = Op::Send { channel: 0, bytes: 8 };
        let tasks = Tasks::default()
            .resources(vec![channel(100, kind)])
            .add("a", vec![Op::Recv(0)])
            .add("b", vec![Op::Recv(0)])
            .add("w", vec![sleep_ms(2), send.clone(), sleep_ms(2), send]);
        starts(&run(4, tasks).0, 2)
    };
    assert_eq!(starts_of_second_reader(Channel::Eventfd), [0, 2, 4]);
    assert_eq!(starts_of_second_reader(Channel::Pipe), [0, 4]);
}

#[test]
fn pipes_and_sockets_pull_the_reader_to_the_writer_but_eventfds_and_futexes_do_not() {
    // The machine has two CPUs that share no cache. The waker is alone on CPU 0, and the reader
    // sleeps on CPU 1. A synchronous wake-up announces that the waker is about to sleep, so the
    // reader is placed on CPU 0.
    let target = |resource: Resource, wait: Op, wake: Op| {
        let tasks = Tasks::default()
            .resources(vec![resource])
            .add("w", vec![run_ms(1), wake, run_ms(1)])
            .with(|task| task.start_cpu = Some(0))
            .add("r", vec![wait])
            .with(|task| task.start_cpu = Some(1));
        let (_, records, _) = draw(MachineSpec::regular(1, 2, 1, 1).free(), tasks, END, MS);
        let woken = |r: &Record| match r.event {
            Event::Wakeup {
                pid: 2,
                target,
                new: false,
            } => Some(target),
            _ => None,
        };
        records.iter().find_map(woken).expect("the reader is woken")
    };
    let through = |kind| target(channel(100, kind), Op::Recv(0), Op::Send { channel: 0, bytes: 8 });
    let kinds = [Channel::Pipe, Channel::Socket, Channel::Datagram, Channel::Tcp];
    assert_eq!(kinds.map(through), [0; 4]);
    assert_eq!(through(Channel::Eventfd), 1);
    let semaphore = Resource::Semaphore {
        name: "s".into(),
        value: 0,
    };
    assert_eq!(target(semaphore, Op::SemWait(0), Op::SemPost(0)), 1);
}

#[test]
fn a_message_from_another_cpu_costs_cache_line_transfers() {
    let ns = |kind, bytes, reader| {
        let mut spec = free(2);
        spec.costs.cache_line.llc = 1000;
        let tasks = Tasks::default()
            .resources(vec![channel(1000, kind)])
            .add("w", vec![Op::Send { channel: 0, bytes }])
            .with(|task| task.cpus = Some(vec![0]))
            .add("r", vec![run_ms(1), Op::Recv(0)])
            .with(|task| task.cpus = Some(vec![reader]));
        let (_, records, _) = draw(spec, tasks, END, MS);
        stop_ns(&records, 2) - MS
    };
    // Cache lines are transferred for the channel, for the data of the message, and for its sk_buff
    // or pipe_buffer.
    assert_eq!(ns(Channel::Socket, 100, 1), 10_000);
    assert_eq!(ns(Channel::Pipe, 100, 1), 4_000);
    assert_eq!(ns(Channel::Pipe, 10, 1), 3_000);
    assert_eq!(ns(Channel::Socket, 100, 0), 0);
}

#[test]
fn tcp_sends_one_message_at_once_and_holds_the_next_until_it_is_acknowledged() {
    let ns = |kind, bytes: u32, messages: usize| {
        let mut spec = free(1);
        spec.costs.tcp_segment_ns = 10_000;
        let send = Op::Send { channel: 0, bytes };
        let tasks = Tasks::default()
            .resources(vec![channel(1_000_000, kind)])
            .add("w", vec![send; messages])
            .add("r", vec![Op::Recv(0); messages]);
        let (_, records, _) = draw(spec, tasks, END, MS);
        stop_ns(&records, 1).max(stop_ns(&records, 2))
    };
    // Each of the first 16 messages is sent alone and acknowledged immediately.
    assert_eq!(
        [1, 2, 16].map(|messages| ns(Channel::Tcp, 100, messages)),
        [15_000, 30_000, 240_000]
    );
    // The next message is sent alone, too. When the reader has acknowledged it, all later messages
    // are sent together. Another acknowledgement follows.
    assert_eq!(
        [1, 2, 5].map(|messages| ns(Channel::Tcp, 100, 16 + messages) - 240_000),
        [15_000, 30_000, 30_000]
    );
    // A full segment, which has two messages of 8 KiB, is sent immediately.
    assert_eq!(
        [3, 4, 5].map(|messages| ns(Channel::Tcp, 8192, 16 + messages) - 240_000),
        [25_000, 40_000, 35_000]
    );
    assert_eq!([1, 5].map(|messages| ns(Channel::Socket, 100, messages)), [0, 0]);
}

#[test]
fn tcp_writers_and_readers_use_different_cache_lines() {
    // Two CPUs write, one after the other. When both have finished, a reader on the first CPU
    // reads.
    let ns = |kind| {
        let mut spec = free(2);
        spec.costs.cache_line.llc = 1000;
        let send = Op::Send { channel: 0, bytes: 64 };
        let tasks = Tasks::default()
            .resources(vec![channel(1000, kind)])
            .add("w0", vec![send.clone()])
            .with(|task| task.cpus = Some(vec![0]))
            .add("w1", vec![run_ms(1), send])
            .with(|task| task.cpus = Some(vec![1]))
            .add("r", vec![run_ms(2), Op::Recv(0)])
            .with(|task| task.cpus = Some(vec![0]));
        let (_, records, _) = draw(spec, tasks, END, MS);
        (stop_ns(&records, 2) - MS, stop_ns(&records, 3) - 2 * MS)
    };
    // The second writer fetches the cache line of the writers' end of the connection. The reader on
    // the first CPU does not need this cache line. A Unix socket has only one end, so its reader
    // has to fetch the cache line as well.
    assert_eq!((ns(Channel::Tcp), ns(Channel::Socket)), ((1000, 0), (1000, 1000)));
}

#[test]
fn a_second_tcp_writer_sleeps_until_the_first_has_finished() {
    let stops = |kind| {
        let mut spec = free(2);
        spec.costs.channel.tcp.send_ns = MS as u32;
        spec.costs.channel.unix_stream.send_ns = MS as u32;
        let send = Op::Send { channel: 0, bytes: 100 };
        let tasks = Tasks::default()
            .resources(vec![channel(1000, kind)])
            .add("w0", vec![send.clone()])
            .add("w1", vec![send]);
        let (_, records, _) = draw(spec, tasks, END, MS);
        [1, 2].map(|pid| (starts(&records, pid), stop_ns(&records, pid)))
    };
    // Both tasks write at 0 ms. The second task's CPU is free until 1 ms, because the task sleeps
    // until then.
    assert_eq!(stops(Channel::Tcp), [(vec![0], MS), (vec![0, 1], 2 * MS)]);
    assert_eq!(stops(Channel::Socket), [(vec![0], MS), (vec![0], MS)]);
}

#[test]
fn tcp_wakes_all_its_writers_when_a_third_is_free() {
    let send = || Op::Send { channel: 0, bytes: 100 };
    let read = || vec![run_ms(1), Op::Recv(0)];
    let tasks = Tasks::default()
        .resources(vec![channel(600, Channel::Tcp)])
        .add("filler", vec![send(), send(), send(), send(), send(), send()])
        .add("w1", vec![run_ms(1), send()])
        .add("reader", (0..8).flat_map(|_| read()).chain([Op::Recv(0)]).collect())
        .with(|task| task.start_ns = MS);
    let (records, _) = run(3, tasks);
    // The reader reads at 2 and 3 ms. After the second read, four of the six messages are left.
    assert_eq!(starts(&records, 2), [0, 3]);
}

#[test]
fn a_message_larger_than_the_buffer_passes_when_it_is_empty() {
    let tasks = Tasks::default()
        .resources(vec![channel(10, Channel::Socket)])
        .add("w", vec![Op::Send { channel: 0, bytes: 100 }])
        .add("r", vec![Op::Recv(0)]);
    assert_eq!(run(2, tasks).1, Ended::AllExited);
}
