// SPDX-License-Identifier: GPL-2.0-only
//! Tests of allocation, access checks, limits and slabs.

use super::layout::*;
use super::*;

static OBJECT: ObjectType = ObjectType {
    name: "object",
    writable: &[],
    parts: &[],
    field_at: |offset| format!("byte {offset}"),
};

#[test]
fn addresses_depend_only_on_the_order_of_requests() {
    let offsets = |region: &Region| {
        let mut slab = region.slab(&OBJECT, 100, 1000).unwrap();
        [
            region.pages(10),
            region.alloc(20),
            region.alloc(100_000),
            slab.alloc(region),
            region.arena(),
        ]
        .map(|addr| addr.unwrap() - region.base())
    };
    let (a, b) = (Region::new().unwrap(), Region::new().unwrap());
    assert_eq!(a.base(), b.base(), "policies see the same addresses in every region");
    assert_ne!(a.delta(), b.delta(), "the regions lie at different host addresses");
    assert_eq!(offsets(&a), offsets(&b));
    let value = |region: &Region| region.load::<u64>(region.base() + BPF + PAGE).unwrap();
    a.store(a.base() + BPF + PAGE, 1u64).unwrap();
    b.store(a.base() + BPF + PAGE, 2u64).unwrap();
    assert_eq!((value(&a), value(&b)), (1, 2));
}

#[test]
fn check_accepts_only_accessible_memory() {
    let region = Region::new().unwrap();
    let addr = region.pages(PAGE).unwrap();
    assert!(region.check(addr, PAGE, true).is_ok());
    assert!(region.check(addr, PAGE + 1, true).is_err());
    assert!(region.check(addr - 1, 2, false).is_err());
    assert!(region.check(region.zeros(), 8, false).is_ok());
    assert!(region.check(region.zeros(), 8, true).is_err());
    assert!(region.check(0, 1, false).is_err());
    assert!(region.check(addr, u64::MAX, false).is_err());
    assert!(region.check(region.base() + SIZE - 1, 2, false).is_err());
    region.release_pages(addr, PAGE);
    assert!(region.check(addr, 1, false).is_err());
}

#[test]
#[cfg_attr(miri, ignore = "the region of Miri is smaller than the limit")]
fn memory_has_a_limit() {
    let region = Region::new().unwrap();
    region.memory().set_limit(1 << 20);
    let page = region.pages(PAGE).unwrap();
    assert_eq!(region.pages(1 << 20), None);
    assert!(region.memory().take_refused());
    let objects: Vec<u64> = std::iter::from_fn(|| region.alloc(100_000)).collect();
    assert_eq!(objects.len(), 10);
    objects.iter().for_each(|&object| region.free(object));
    region.release_pages(page, PAGE);
    assert_eq!(region.memory().used(), 0);
    assert!(region.pages(1 << 20).is_some());
    assert_eq!(region.alloc(16), None);
    let arena = region.arena().unwrap();
    assert_eq!(region.commit_arena(arena, PAGE), Err(Exhausted::Memory));
    region.memory().set_limit(2 << 20);
    assert_eq!(region.commit_arena(arena, 4 * PAGE), Ok(()));
    assert_eq!(region.memory().used(), (1 << 20) + 4 * PAGE);
    region.release_arena(arena);
    assert_eq!(region.memory().used(), 1 << 20);
}

#[test]
fn reused_objects_are_zeroed() {
    let region = Region::new().unwrap();
    for size in [1, 16, 17, 4096, 40_000] {
        let addr = region.alloc(size).unwrap();
        assert!(region.bytes(addr, size).unwrap().iter().all(|&b| b == 0));
        region.fill(addr, size, 0xaa).unwrap();
        region.free(addr);
        let again = region.alloc(size).unwrap();
        assert_eq!(again, addr, "the object freed last is reused first");
        assert!(region.bytes(again, size).unwrap().iter().all(|&b| b == 0));
    }
}

#[test]
fn slabs_recognise_their_objects() {
    let region = Region::new().unwrap();
    let mut slab = region.slab(&OBJECT, 200, 3).unwrap();
    let objects: Vec<u64> = (0..3).map(|_| slab.alloc(&region).unwrap()).collect();
    assert_eq!(slab.alloc(&region), None);
    assert_eq!(slab.index(objects[2]), Some(2));
    assert_eq!(slab.index(objects[2] + 8), None);
    let other = region.slab(&OBJECT, 64, 10).unwrap().alloc(&region).unwrap();
    assert_eq!(region.object(objects[2]), Some((0, 2)));
    assert_eq!(region.object(objects[2] + 8), None);
    assert_eq!(region.object(other), Some((1, 0)));
    assert_eq!(region.object(region.zeros()), None);
    assert!(region.check(objects[2], 200, true).is_ok());
    // Programs may store to some fields of kernel objects; the JIT and the interpreter check this.
    // A helper may never store to a kernel object if a policy passed the address.
    let given = region.pages(PAGE).unwrap();
    assert!(region.store(given, 1u64).is_ok());
    assert!(region.store(objects[2], 1u8).is_err() && region.fill(objects[2], 8, 0).is_err());
    assert!(region.write(objects[2], &[0; 8]).is_err());
    assert!(region.copy(objects[2], given, 8).is_err() && region.copy(given, objects[2], 8).is_ok());
    slab.free(objects[1]);
    assert_eq!(slab.alloc(&region), Some(objects[1]));
}

#[test]
#[should_panic(expected = "which was not allocated")]
fn only_the_start_of_an_object_can_be_freed() {
    let region = Region::new().unwrap();
    let addr = region.alloc(32768).unwrap();
    region.free(addr + 16);
}

#[test]
#[should_panic(expected = "are not in the region")]
fn pages_before_the_region_stay_as_they_are() {
    let region = Region::new().unwrap();
    let _ = region.discard_arena(region.base() - PAGE, PAGE);
}

#[test]
#[should_panic(expected = "are not in the region")]
fn pages_behind_the_region_stay_as_they_are() {
    let region = Region::new().unwrap();
    let _ = region.commit_arena(region.base() + SIZE - PAGE, 2 * PAGE);
}

#[test]
#[should_panic(expected = "a slab is used with its own region")]
fn a_slab_is_used_with_its_own_region() {
    let (region, other) = (Region::new().unwrap(), Region::new().unwrap());
    let _ = region.slab(&OBJECT, 100, 10).unwrap().alloc(&other);
}
