//! Edits as a patch, in the unified format that `git apply` and `patch -p1` read. It never computes an edit.

use super::FileEdit;

/// Lines shown before and after a change.
const AROUND: usize = 3;

/// One hunk for each file, from its first changed line to its last one.
pub fn unified_diff(edits: &[FileEdit]) -> String {
    edits.iter().map(one).collect()
}

fn one(edit: &FileEdit) -> String {
    let before = edit.before.as_deref().unwrap_or_default();
    if before == edit.after && edit.before.is_some() {
        return String::new();
    }
    let (old, new): (Vec<&str>, Vec<&str>) =
        (before.split_inclusive('\n').collect(), edit.after.split_inclusive('\n').collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let longest = old.len().min(new.len()) - same;
    let same_end = old.iter().rev().zip(new.iter().rev()).take(longest).take_while(|(old, new)| old == new).count();
    let from = same.saturating_sub(AROUND);
    let behind = same_end.min(AROUND);
    let (old_end, new_end) = (old.len() - same_end, new.len() - same_end);
    let from_name = if edit.before.is_some() { format!("a/{}", edit.path) } else { "/dev/null".into() };
    let mut text = format!(
        "--- {from_name}\n+++ b/{}\n@@ -{} +{} @@\n",
        edit.path,
        range(from, old_end + behind),
        range(from, new_end + behind)
    );
    let mut push = |sign: char, lines: &[&str]| {
        for line in lines {
            text.push(sign);
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    };
    push(' ', &old[from..same]);
    push('-', &old[same..old_end]);
    push('+', &new[same..new_end]);
    push(' ', &old[old_end..old_end + behind]);
    text
}

/// First line and number of lines; of none, the line before.
fn range(from: usize, to: usize) -> String {
    let count = to - from;
    let first = if count == 0 { from } else { from + 1 };
    format!("{first},{count}")
}
