// SPDX-License-Identifier: GPL-2.0-only
//! Tests of helpers that do as much work as the program asks for. Such a helper charges its work to
//! the program's budget (the number of instructions that one call of the program may execute). An
//! endless loop around such a helper must therefore use up the budget after few instructions of its
//! own. The JIT and the interpreter must end the loop at the same call.

use bpf::engine::{Vm, World};
use bpf::fault::FaultKind;

use crate::limits::{BUDGET, ENGINES, Ran, world};
use crate::world::TestWorld;

/// Start of each program. r6 points to a map value that contains 64 KiB of letters. r7 points to 4
/// KiB of memory, which begin with a format.
const BEGIN: &str = "func main:\nmap m array 4 65536 1\nr7 = r1\n*(u32 *)(r10 - 4) = 0\nr1 = map m\nr2 = r10\nr2 += -4\n\
    call bpf_map_lookup_elem\nif r0 == 0 goto out\nr6 = r0\nagain:\n";
const END: &str = "\ngoto again\nout:\nr0 = 0\nexit\n";
const FORMAT: &[u8] = b"%8388607d|%-8388607x|%08388607d\0";

/// Fills the memory with the format, and the map value with letters. Then calls the program.
fn call(world: &mut TestWorld) -> Ran {
    let region = &world.region;
    region.write(world.memory, FORMAT).expect("the region has this memory");
    let letters = world
        .vm()
        .map_by_name("m")
        .and_then(|map| map.values())
        .expect("the map is an array")
        .0;
    let region = &world.region;
    region.fill(letters, 65535, b'a').expect("the region has this memory");
    crate::limits::call(world, 0)
}

/// Runs an endless loop around `body`. `functions` is the text of functions that `body` may call.
/// Checks that the budget ends the loop in the same way in both engines. Returns the number of
/// instructions that were executed.
fn endless(body: &str, functions: &str) -> u64 {
    let text = [BEGIN, body, END, functions].concat();
    let [plain, _] = [false, true].map(|sanitized| {
        let [interpreted, compiled] = ENGINES.map(|engine| call(&mut world(&text, engine, sanitized)));
        assert_eq!(
            interpreted, compiled,
            "the engines differ for {body} (sanitizer: {sanitized})"
        );
        compiled
    });
    let (result, insns) = plain;
    let (kind, message, _) = result.expect_err(body);
    assert_eq!(kind, FaultKind::Budget, "{body}: {message}");
    insns
}

#[test]
fn helpers_charge_for_the_bytes_they_read() {
    // Each number is the maximum number of instructions that the loop may execute before it has
    // used up the budget of two million.
    for (body, most) in [
        // These helpers charge one or two instructions per character.
        ("r1 = r6\nr2 = r6\ncall bpf_strspn", 100),
        ("r1 = r6\ncall bpf_strlen", 200),
        ("r1 = r6\nr2 = r7\ncall bpf_strcspn", 100),
        ("r1 = r6\nr2 = r6\ncall bpf_strcmp", 100),
        ("r1 = r6\nr2 = 120\ncall bpf_strchr", 200),
        ("r1 = r6\nr2 = r6\nr2 += 32768\ncall bpf_strstr", 200),
        ("r1 = r6\nr2 = 65535\nr3 = r6\ncall bpf_strncmp", 200),
        ("r1 = r6\nr2 = 65536\nr3 = 10\nr4 = r7\nr4 += 64\ncall bpf_strtol", 300),
        // These helpers charge one instruction per 16 bytes.
        ("r1 = r6\nr2 = 65536\nr3 = r6\ncall bpf_probe_read_kernel", 4000),
        ("r1 = r6\nr2 = 65536\nr3 = 4096\ncall bpf_probe_read_user", 4000),
        (
            "r1 = r6\nr2 = 30000\nr3 = r6\nr3 += 30000\ncall bpf_probe_read_kernel_str",
            400,
        ),
        ("r1 = r6\nr2 = 65536\ncall bpf_get_current_comm", 4000),
        ("r1 = 1\nr2 = r6\nr3 = 65536\ncall bpf_seq_write", 4000),
    ] {
        let insns = endless(body, "");
        assert!((1..=most).contains(&insns), "{body}: {insns} instructions");
    }
}

#[test]
fn a_huge_width_takes_neither_time_nor_memory() {
    // Each of the three conversions of the format has a width of eight million characters. The
    // buffer has room for a hundred.
    let arguments =
        "*(u64 *)(r10 - 32) = 1\n*(u64 *)(r10 - 24) = 2\n*(u64 *)(r10 - 16) = 3\nr4 = r10\nr4 += -32\nr5 = 24\n";
    let snprintf = "r1 = r6\nr2 = 100\nr3 = r7\ncall bpf_snprintf";
    let insns = endless(&format!("{arguments}{snprintf}"), "");
    assert!(insns < BUDGET / 10, "{insns}");
    let once = [BEGIN, arguments, snprintf, "\nexit\nout:\nexit"].concat();
    for engine in ENGINES {
        let mut world = world(&once, engine, false);
        assert_eq!(
            call(&mut world).0,
            Ok(3 * 8_388_607 + 3),
            "the result is the length of the whole output"
        );
        let start = world
            .vm()
            .map_by_name("m")
            .and_then(|map| map.values())
            .expect("the map is an array")
            .0;
        let text = world.region.bytes(start, 101).expect("the region has this memory");
        assert_eq!(text.to_vec(), [&[b' '; 99][..], b"\0a"].concat());
    }
}

#[test]
fn dynptrs_maps_and_rings_charge_for_copied_bytes() {
    let dynptr = "r1 = r6\nr2 = 65536\nr3 = 0\nr4 = r10\nr4 += -32\ncall bpf_dynptr_from_mem\n";
    for body in [
        "r1 = r10\nr1 += -32\nr2 = 0\nr3 = 65536\nr4 = 97\ncall bpf_dynptr_memset",
        "r1 = r6\nr2 = 65536\nr3 = r10\nr3 += -32\nr4 = 0\nr5 = 0\ncall bpf_dynptr_read",
        "r1 = r10\nr1 += -32\nr2 = 0\nr3 = r6\nr4 = 65536\nr5 = 0\ncall bpf_dynptr_write",
        "r1 = r10\nr1 += -32\nr2 = 0\nr3 = r10\nr3 += -32\nr4 = 0\nr5 = 65536\ncall bpf_dynptr_copy",
    ] {
        let insns = endless(&format!("{dynptr}{body}"), "");
        assert!(insns <= 6000, "{body}: {insns} instructions");
    }
    for body in [
        "map ring ringbuf 0 0 131072\nr1 = map ring\nr2 = r6\nr3 = 65536\nr4 = 0\ncall bpf_ringbuf_output",
        "map h hash 4 65536 4\nr1 = map h\nr2 = r7\nr3 = r6\nr4 = 0\ncall bpf_map_update_elem",
        "map q queue 0 65536 4\nr1 = map q\nr2 = r6\nr3 = 2\ncall bpf_map_push_elem",
        "map q stack 0 65536 4\nr1 = map q\nr2 = r6\ncall bpf_map_pop_elem",
    ] {
        let insns = endless(body, "");
        assert!(insns <= 4000, "{body}: {insns} instructions");
    }
}

#[test]
fn each_call_of_a_trivial_callback_is_charged() {
    let nothing = "func nothing:\nr0 = 0\nexit";
    for body in [
        "r1 = 8000000\nr2 = func nothing\nr3 = 0\nr4 = 0\ncall bpf_loop",
        "map big array 4 8 1000000\nr1 = map big\nr2 = func nothing\nr3 = 0\nr4 = 0\ncall bpf_for_each_map_elem",
    ] {
        // Each call of the callback executes two instructions and charges four. About a third of
        // the budget is therefore used by executed instructions.
        let insns = endless(body, nothing);
        assert!((BUDGET / 4..BUDGET / 2).contains(&insns), "{body}: {insns}");
    }
}

#[test]
fn long_searches_are_charged() {
    // The hash function multiplies a key by a constant. The program computes keys whose products
    // differ only in the low bits, so the hashes of these keys are equal.
    let mut inverse = 0x9e37_79b9_7f4a_7c15u64;
    for _ in 0..6 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(inverse.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    }
    let collide = format!(
        "map h hash 8 8 1000000\nr8 = 0\nnext:\nr8 += 1\nr1 = r8\nr2 = {}\nr2 <<= 32\nr3 = {}\nr3 <<= 32\nr3 >>= 32\nr2 |= r3\n\
         r1 *= r2\nr1 ^= 256\n*(u64 *)(r10 - 16) = r1\nr1 = map h\nr2 = r10\nr2 += -16\nr3 = r6\nr4 = 0\n\
         call bpf_map_update_elem\ngoto next",
        (inverse >> 32) as i32,
        inverse as i32
    );
    // The map value contains the nodes of a list. The program searches the list for a node that is
    // not in it.
    let list = "r8 = 0\nfill:\nr1 = r7\nr1 += 1024\nr2 = r6\nr2 += r8\nr3 = 0\nr4 = 0\ncall bpf_list_push_back_impl\nr8 += 24\n\
        if r8 < 60000 goto fill\nsearch:\nr1 = r7\nr1 += 1024\nr2 = r7\ncall bpf_list_del\ngoto search";
    // The program itself writes the bytes of a bit iterator. Each call then searches 64 KiB of
    // zeros.
    let bits = "r1 = r6\nr2 = 65536\nr3 = 0\ncall bpf_probe_read_kernel\nscan:\n*(u64 *)(r10 - 32) = r6\n\
        *(u32 *)(r10 - 24) = 524288\n*(u32 *)(r10 - 20) = -1\nr1 = r10\nr1 += -32\ncall bpf_iter_bits_next\ngoto scan";
    let arena = "map a arena 0 0 1000\nr1 = map a\nr2 = 0\nr3 = 900\nr4 = -1\nr5 = 0\ncall bpf_arena_alloc_pages\n\
        r8 = r0\nr1 = map a\nr2 = r8\nr3 = 900\ncall bpf_arena_free_pages";
    for (body, most) in [
        (collide.as_str(), BUDGET / 4),
        (list, BUDGET / 10),
        (bits, 5000),
        (arena, 2000),
    ] {
        let insns = endless(body, "");
        assert!(insns <= most, "{body}: {insns} instructions");
    }
}

#[test]
fn a_charge_changes_neither_the_executed_count_nor_later_calls() {
    let text = [BEGIN, "r1 = r6\ncall bpf_strlen\nexit\nout:\nexit"].concat();
    for engine in ENGINES {
        let mut world = world(&text, engine, false);
        for _ in 0..100 {
            // The string has 65,535 characters. One budget would suffice for only thirty of these
            // calls, but each call has its own budget.
            assert_eq!(call(&mut world), (Ok(65535), 11));
        }
        // A charge has no effect while no program is running.
        assert!(world.vm().charge(u64::MAX).is_ok());
        assert_eq!(Vm::call(&mut world, 0, [0; 5]).expect("the program returns"), 65535);
    }
}
