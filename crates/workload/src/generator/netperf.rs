// SPDX-License-Identifier: GPL-2.0-only
//! The generator `netperf`: pairs of a client and a server that exchange a request and a response
//! through the loopback device, like netperf's tests UDP_RR and TCP_RR.
//!
//! A client sends its next request when it has received the response to the previous one
//! (send_omni in netperf's nettest_omni.c), so each transaction has two wake-ups and two switches.
//! Each client and each server is a process, like netperf and the child of netserver that serves
//! it.
//!
//! A UDP packet passes through IP and the loopback device in the context of its sender before it
//! wakes the receiver. The parameter `stack` is this time. The rest of a message costs as much as
//! one through an AF_UNIX datagram socket. For TCP, the machine has a cost of its own
//! (`tcp_segment`). A TCP message wakes its reader when the send begins, and the sender pays
//! afterwards, so client and server overlap more than in reality. The figures of TCP_RR are
//! therefore too good.

use super::arguments::{Arguments, parameters};
use super::{Generator, channel, empty, task};
use crate::builder::Builder;
use crate::program::{Channel, Dist, Op, Resource, Workload};
use input::Error;

pub const GENERATOR: Generator = Generator {
    name: "netperf",
    about: "clients and servers that exchange requests and responses (UDP_RR, TCP_RR)",
    example: "test=TCP_RR,pairs=2,duration=20ms",
    parameters: parameters! {
        "test": Choice(&["UDP_RR", "TCP_RR"]), "UDP_RR",
            "netperf's name of the test. TCP_RR is too fast: a TCP message wakes its reader before the sender has paid for it";
        "pairs": Count, "1", ("1", "10000"), "number of clients, each with a server of its own";
        "request": Bytes, "1", ("1", "16k"), "size of a request (-r)";
        "response": Bytes, "1", ("1", "16k"), "size of a response (-r)";
        "stack": Time, "1us", ("0", "1ms"),
            "time of a UDP packet in IP and the loopback device; assumption: 3000 cycles at 3 GHz";
        "footprint": Bytes, "4k", ("0", "1g"),
            "working set of a process: stack, buffers and its socket";
        "duration": Time, "1s", ("1us", "86400s"), "simulated time";
    },
    build,
};

fn build(a: &Arguments) -> Result<Workload, Error> {
    let mut workload = empty("transactions", Some(a.get("duration")));
    let tcp = a.choice("test") == "TCP_RR";
    let (request, response): (u32, u32) = (a.small("request"), a.small("response"));
    let socket = |name: String, bytes: u32| match tcp {
        true => channel::tcp(name, channel::TCP_BYTES, bytes.into()),
        false => Resource::Channel {
            name,
            capacity: channel::SOCKET_BYTES,
            kind: Channel::Datagram,
        },
    };
    let send = |b: &mut Builder, channel, bytes| {
        if !tcp && a.get("stack") > 0 {
            b.op(Op::Run(Dist::Fixed(a.get("stack"))));
        }
        b.op(Op::Send { channel, bytes });
    };
    for pair in 0..a.small("pairs") {
        let (to_server, to_client) = (2 * pair, 2 * pair + 1);
        workload.resources.push(socket(format!("{pair}.request"), request));
        workload.resources.push(socket(format!("{pair}.response"), response));
        let mut client = Builder::default();
        client.repeat(None, |b| {
            b.op(Op::Begin { arrival: false });
            send(b, to_server, request);
            b.op(Op::Recv(to_client)).op(Op::Done { count: 1 });
        });
        let mut server = Builder::default();
        server.repeat(None, |b| {
            b.op(Op::Recv(to_server));
            send(b, to_client, response);
        });
        workload.programs.extend([client.finish(), server.finish()]);
        for (comm, id) in [("netperf", to_server), ("netserver", to_client)] {
            let mut process = task(comm, id, id);
            process.footprint_bytes = a.get("footprint");
            workload.tasks.push(process);
        }
    }
    Ok(workload)
}
