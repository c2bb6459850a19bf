// SPDX-License-Identifier: GPL-2.0-only
//! Trees (`bpf_rb_root`) and lists (`bpf_list_head`) of objects that BPF code allocates.
//!
//! The order of the nodes is stored outside of program memory, in a table with an entry for each
//! root (by its address). A tree is a sorted array, so an insertion takes log2(n) comparisons,
//! about as many as in a balanced tree, and a node follows all equal nodes. `bpf_rbtree_root`,
//! `left` and `right` present the array as a perfectly balanced tree.

use super::object;
use super::state::State;
use crate::engine::func::Func;
use crate::engine::vm::Vm;
use crate::engine::world::World;
use crate::errno::long::*;
use crate::fault::Fault;
use crate::memory::Use;
use crate::rows::*;

pub(super) fn table<W: World>() -> Vec<Func<W>> {
    crate::kfuncs! {
        "int bpf_rbtree_add_impl(struct bpf_rb_root *root, struct bpf_rb_node *node, \
         bool (less)(struct bpf_rb_node *, const struct bpf_rb_node *), void *meta__ign, u64 off)"
        { releases: V6_12.., contexts: ANY, rules: does(GraphAdd).under_lock().calls_back(2), native: CALL,
          run: rbtree_add }
        "int bpf_rbtree_add(struct bpf_rb_root *root, struct bpf_rb_node *node, bool (less)(struct bpf_rb_node *, \
         const struct bpf_rb_node *))"
        { releases: V7_1.., contexts: ANY, rules: does(GraphAdd).under_lock().calls_back(2), native: CALL,
          run: rbtree_add }
        "struct bpf_rb_node *bpf_rbtree_first(struct bpf_rb_root *root)"
        { releases: V6_12.., contexts: ANY, rules: does(GraphPeek).ret_null().under_lock(), native: CALL,
          run: rbtree_first }
        "struct bpf_rb_node *bpf_rbtree_remove(struct bpf_rb_root *root, struct bpf_rb_node *node)"
        { releases: V6_12.., contexts: ANY, rules: does(GraphTake).ret_null().under_lock(), native: CALL,
          run: rbtree_remove }
        "struct bpf_rb_node *bpf_rbtree_root(struct bpf_rb_root *root)"
        { releases: V6_16.., contexts: ANY, rules: does(GraphPeek).ret_null().under_lock(), native: CALL,
          run: rbtree_root }
        "struct bpf_rb_node *bpf_rbtree_left(struct bpf_rb_root *root, struct bpf_rb_node *node)"
        { releases: V6_16.., contexts: ANY, rules: does(GraphPeek).ret_null().under_lock(), native: CALL,
          run: |w: &mut W, root: u64, node: u64| rbtree_child(w, root, node, false) }
        "struct bpf_rb_node *bpf_rbtree_right(struct bpf_rb_root *root, struct bpf_rb_node *node)"
        { releases: V6_16.., contexts: ANY, rules: does(GraphPeek).ret_null().under_lock(), native: CALL,
          run: |w: &mut W, root: u64, node: u64| rbtree_child(w, root, node, true) }
        "int bpf_list_push_front_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta__ign, u64 off)"
        { releases: V6_12.., contexts: ANY, rules: does(GraphAdd).under_lock(), native: CALL,
          run: |w: &mut W, head: u64, node: u64| list_push(w, head, node, true) }
        "int bpf_list_push_back_impl(struct bpf_list_head *head, struct bpf_list_node *node, void *meta__ign, u64 off)"
        { releases: V6_12.., contexts: ANY, rules: does(GraphAdd).under_lock(), native: CALL,
          run: |w: &mut W, head: u64, node: u64| list_push(w, head, node, false) }
        "int bpf_list_push_front(struct bpf_list_head *head, struct bpf_list_node *node)"
        { releases: V7_1.., contexts: ANY, rules: does(GraphAdd).under_lock(), native: CALL,
          run: |w: &mut W, head: u64, node: u64| list_push(w, head, node, true) }
        "int bpf_list_push_back(struct bpf_list_head *head, struct bpf_list_node *node)"
        { releases: V7_1.., contexts: ANY, rules: does(GraphAdd).under_lock(), native: CALL,
          run: |w: &mut W, head: u64, node: u64| list_push(w, head, node, false) }
        "int bpf_list_add(struct bpf_list_head *head, struct bpf_list_node *new, \
         struct bpf_list_node *prev__nonown_allowed)"
        { releases: V7_2.., contexts: ANY, rules: does(GraphAdd).under_lock(), native: CALL, run: list_add }
        "struct bpf_list_node *bpf_list_del(struct bpf_list_head *head, struct bpf_list_node *node__nonown_allowed)"
        { releases: V7_2.., contexts: ANY, rules: does(GraphTake).under_lock(), native: CALL, run: list_del }
        "bool bpf_list_empty(struct bpf_list_head *head)"
        { releases: V7_2.., contexts: ANY, rules: PLAIN.under_lock(), native: CALL,
          run: |w: &mut W, h: u64| list_end(w, h, true) == 0 }
        "bool bpf_list_is_first(struct bpf_list_head *head, struct bpf_list_node *node__nonown_allowed)"
        { releases: V7_2.., contexts: ANY, rules: PLAIN.under_lock(), native: CALL,
          run: |w: &mut W, h: u64, node: u64| node != 0 && list_end(w, h, true) == node }
        "bool bpf_list_is_last(struct bpf_list_head *head, struct bpf_list_node *node__nonown_allowed)"
        { releases: V7_2.., contexts: ANY, rules: PLAIN.under_lock(), native: CALL,
          run: |w: &mut W, h: u64, node: u64| node != 0 && list_end(w, h, false) == node }
        "struct bpf_list_node *bpf_list_pop_front(struct bpf_list_head *head)"
        { releases: V6_12.., contexts: ANY, rules: does(GraphTake).ret_null().under_lock(), native: CALL,
          run: |w: &mut W, h: u64| list_pop(w, h, true) }
        "struct bpf_list_node *bpf_list_pop_back(struct bpf_list_head *head)"
        { releases: V6_12.., contexts: ANY, rules: does(GraphTake).ret_null().under_lock(), native: CALL,
          run: |w: &mut W, h: u64| list_pop(w, h, false) }
        "struct bpf_list_node *bpf_list_front(struct bpf_list_head *head)"
        { releases: V6_16.., contexts: ANY, rules: does(GraphPeek).ret_null().under_lock(), native: CALL,
          run: |w: &mut W, h: u64| list_end(w, h, true) }
        "struct bpf_list_node *bpf_list_back(struct bpf_list_head *head)"
        { releases: V6_16.., contexts: ANY, rules: does(GraphPeek).ret_null().under_lock(), native: CALL,
          run: |w: &mut W, h: u64| list_end(w, h, false) }
    }
}

/// Records that a tree or list contains a node. Returns `false` if the node is already in a tree or
/// list.
fn add_member<W: World>(w: &mut W, root: u64, node: u64) -> Result<bool, Fault> {
    w.region().check_writable(root, 16)?;
    w.region().check_writable(node, 24)?;
    let mut state = w.vm().state().borrow_mut();
    if state.root_by_node.contains_key(&node) {
        return Ok(false);
    }
    w.region().memory().charge_record(Use::Records)?;
    state.root_by_node.insert(node, root);
    Ok(true)
}

/// Records that a node is no longer in a tree or list.
fn remove_member<W: World>(w: &W, state: &mut State, node: u64) {
    if state.root_by_node.remove(&node).is_some() {
        w.region().memory().uncharge_records(Use::Records, 1);
    }
}

/// Drops the program's reference to a node that cannot be added to a tree or list, because it is
/// already in one. The kernel does the same. This happens only with objects to which a program can
/// have several references (bpf_refcount).
fn reject_node<W: World>(w: &mut W, node: u64) -> i64 {
    if let Some((object, _)) = w.region().allocation_at(node) {
        object::drop_counted_reference(w, object);
    }
    -EINVAL
}

/// Removes all nodes from a tree or list whose root is about to be removed, and returns the nodes.
pub(super) fn clear<W: World>(w: &mut W, root: u64) -> Vec<u64> {
    let mut state = w.vm().state().borrow_mut();
    let mut nodes = state.trees.remove(&root).unwrap_or_default();
    nodes.extend(state.lists.remove(&root).unwrap_or_default());
    for node in &nodes {
        remove_member(w, &mut state, *node);
    }
    nodes
}

/// Charges the program's instruction budget for a search over `nodes` nodes, or for moving them.
fn charge<W: World>(w: &W, nodes: usize) -> Result<(), Fault> {
    /// Number of nodes that the host examines in the time that it needs for one BPF instruction.
    const NODES: usize = 4;
    w.vm().charge((nodes / NODES) as u64)
}

/// Returns the number of nodes in a tree.
fn tree_len<W: World>(w: &W, root: u64) -> usize {
    w.vm().state().borrow().trees.get(&root).map_or(0, Vec::len)
}

/// Returns the number of nodes in a list.
fn list_len<W: World>(w: &W, head: u64) -> usize {
    let state = w.vm().state().borrow();
    state.lists.get(&head).map_or(0, std::collections::VecDeque::len)
}

fn rbtree_add<W: World>(w: &mut W, root: u64, node: u64, less: u64) -> Result<i64, Fault> {
    if !add_member(w, root, node)? {
        return Ok(reject_node(w, node));
    }
    let (mut low, mut high) = (0, tree_len(w, root));
    charge(w, high)?;
    while low < high {
        let middle = (low + high) / 2;
        let other = w
            .vm()
            .state()
            .borrow()
            .trees
            .get(&root)
            .and_then(|tree| tree.get(middle).copied());
        // The comparison runs code of the program, which may have removed nodes from the tree.
        let Some(other) = other else { break };
        if Vm::call_address(w, less, [node, other, 0, 0, 0])? as u8 != 0 {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let mut state = w.vm().state().borrow_mut();
    let tree = state.trees.get_or_default(root);
    let at = low.min(tree.len());
    tree.insert(at, node);
    Ok(0)
}

fn rbtree_first<W: World>(w: &mut W, root: u64) -> u64 {
    w.vm()
        .state()
        .borrow()
        .trees
        .get(&root)
        .and_then(|tree| tree.first().copied())
        .unwrap_or(0)
}

fn rbtree_remove<W: World>(w: &mut W, root: u64, node: u64) -> Result<u64, Fault> {
    charge(w, tree_len(w, root))?;
    let mut state = w.vm().state().borrow_mut();
    let Some(at) = state
        .trees
        .get(&root)
        .and_then(|tree| tree.iter().position(|&n| n == node))
    else {
        return Ok(0);
    };
    state.trees.get_or_default(root).remove(at);
    remove_member(w, &mut state, node);
    Ok(node)
}

fn rbtree_root<W: World>(w: &mut W, root: u64) -> u64 {
    let state = w.vm().state().borrow();
    state
        .trees
        .get(&root)
        .and_then(|tree| tree.get(tree.len() / 2).copied())
        .unwrap_or(0)
}

fn rbtree_child<W: World>(w: &mut W, root: u64, node: u64, right: bool) -> Result<u64, Fault> {
    charge(w, tree_len(w, root))?;
    let state = w.vm().state().borrow();
    let Some(tree) = state.trees.get(&root) else {
        return Ok(0);
    };
    let Some(at) = tree.iter().position(|&n| n == node) else {
        return Ok(0);
    };
    let (mut low, mut high) = (0, tree.len());
    loop {
        let middle = low + (high - low) / 2;
        match at.cmp(&middle) {
            std::cmp::Ordering::Less => high = middle,
            std::cmp::Ordering::Greater => low = middle + 1,
            std::cmp::Ordering::Equal => {
                let (low, high) = if right { (middle + 1, high) } else { (low, middle) };
                return Ok(if low < high { tree[low + (high - low) / 2] } else { 0 });
            }
        }
    }
}

fn list_push<W: World>(w: &mut W, head: u64, node: u64, front: bool) -> Result<i64, Fault> {
    if !add_member(w, head, node)? {
        return Ok(reject_node(w, node));
    }
    let mut state = w.vm().state().borrow_mut();
    let list = state.lists.get_or_default(head);
    if front {
        list.push_front(node);
    } else {
        list.push_back(node);
    }
    Ok(0)
}

fn list_pop<W: World>(w: &mut W, head: u64, front: bool) -> u64 {
    let mut state = w.vm().state().borrow_mut();
    let Some(list) = state.lists.get_mut(&head) else {
        return 0;
    };
    let node = if front { list.pop_front() } else { list.pop_back() };
    let Some(node) = node else { return 0 };
    remove_member(w, &mut state, node);
    node
}

/// Inserts a node after `prev`, which must be in the list.
fn list_add<W: World>(w: &mut W, head: u64, node: u64, prev: u64) -> Result<i64, Fault> {
    if w.vm().state().borrow().root_by_node.get(&prev) != Some(&head) || !add_member(w, head, node)? {
        return Ok(reject_node(w, node));
    }
    charge(w, list_len(w, head))?;
    let mut state = w.vm().state().borrow_mut();
    let list = state.lists.get_or_default(head);
    let at = list.iter().position(|&n| n == prev).map_or(0, |at| at + 1);
    list.insert(at, node);
    Ok(0)
}

fn list_del<W: World>(w: &mut W, head: u64, node: u64) -> Result<u64, Fault> {
    charge(w, list_len(w, head))?;
    let mut state = w.vm().state().borrow_mut();
    let Some(list) = state.lists.get_mut(&head) else {
        return Ok(0);
    };
    let Some(at) = list.iter().position(|&n| n == node) else {
        return Ok(0);
    };
    list.remove(at);
    remove_member(w, &mut state, node);
    Ok(node)
}

fn list_end<W: World>(w: &mut W, head: u64, front: bool) -> u64 {
    let state = w.vm().state().borrow();
    let Some(list) = state.lists.get(&head) else { return 0 };
    let node = if front { list.front() } else { list.back() };
    node.copied().unwrap_or(0)
}
