//! A unified diff of two texts, with three lines of context.

const CONTEXT: usize = 3;

/// The kind of a line of the result.
#[derive(Clone, Copy, PartialEq)]
enum Op {
    Same,
    Gone,
    New,
}

/// The differences; empty if there are none.
pub(crate) fn unified(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.split('\n').collect(), new.split('\n').collect());
    let ops = script(&old, &new);
    let mut out = String::new();
    let mut start = 0;
    while let Some(first) = ops[start..].iter().position(|(op, _, _)| *op != Op::Same) {
        let first = start + first;
        let mut last = first;
        for (at, (op, _, _)) in ops.iter().enumerate().skip(first) {
            if *op != Op::Same {
                last = at;
            } else if at - last > 2 * CONTEXT {
                break;
            }
        }
        let from = first.saturating_sub(CONTEXT).max(start);
        let to = (last + 1 + CONTEXT).min(ops.len());
        hunk(&ops[from..to], &old, &new, &mut out);
        start = to;
    }
    out
}

fn hunk(ops: &[(Op, usize, usize)], old: &[&str], new: &[&str], out: &mut String) {
    let count = |skip: Op| ops.iter().filter(|(op, _, _)| *op != skip).count();
    let (gone, come) = (count(Op::New), count(Op::Gone));
    let range = |start: usize, length: usize| match length {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    };
    let (_, old_start, new_start) = ops[0];
    out.push_str(&format!("@@ -{} +{} @@\n", range(old_start, gone), range(new_start, come)));
    for (op, old_at, new_at) in ops {
        let (mark, text) = match op {
            Op::Same => (' ', old[*old_at]),
            Op::Gone => ('-', old[*old_at]),
            Op::New => ('+', new[*new_at]),
        };
        out.push(mark);
        out.push_str(text);
        out.push('\n');
    }
}

/// Line by line, with where each stands in both texts. Common lines at both ends are taken first, so that the
/// table for the rest stays small.
fn script(old: &[&str], new: &[&str]) -> Vec<(Op, usize, usize)> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut longest = vec![vec![0u32; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            longest[i][j] = if a[i] == b[j] {
                longest[i + 1][j + 1] + 1
            } else {
                longest[i + 1][j].max(longest[i][j + 1])
            };
        }
    }
    let mut ops: Vec<(Op, usize, usize)> = (0..head).map(|at| (Op::Same, at, at)).collect();
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let (old_at, new_at) = (head + i, head + j);
        if i < a.len() && j < b.len() && a[i] == b[j] {
            ops.push((Op::Same, old_at, new_at));
            i += 1;
            j += 1;
        } else if j == b.len() || (i < a.len() && longest[i + 1][j] >= longest[i][j + 1]) {
            ops.push((Op::Gone, old_at, new_at));
            i += 1;
        } else {
            ops.push((Op::New, old_at, new_at));
            j += 1;
        }
    }
    ops.extend((0..tail).map(|at| (Op::Same, head + a.len() + at, head + b.len() + at)));
    ops
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_shown_with_its_surroundings() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh";
        let new = "a\nb\nc\nd\nX\nY\nf\ng\nh";
        assert_eq!(unified(old, new), "@@ -2,7 +2,8 @@\n b\n c\n d\n-e\n+X\n+Y\n f\n g\n h\n");
        assert_eq!(unified(old, old), "");
    }
}
