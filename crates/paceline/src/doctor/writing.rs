//! Writes the edits of an advice, and takes them back. It writes over nothing that has changed since, and never outside the
//! application's folder.

use std::{
    fs::{self, OpenOptions},
    io::{self, ErrorKind, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Component, Path, PathBuf},
};

use doctor::apply::FileEdit;
use rustix::fs::OFlags;
use unix_user::acting;

use super::{diagnosing::Target, progress::plain, DoctorError};

/// Takes all edits back, and says so.
pub fn put_back(target: &Target, edits: &[FileEdit]) {
    for edit in edits {
        say(&format!("{}: {}\n", target.name, take_back(target, edit)));
    }
}

/// The path of a file below the root. None: it leads out of it.
pub fn inside(root: &Path, path: &str) -> Option<PathBuf> {
    let path = Path::new(path);
    path.components().all(|part| matches!(part, Component::Normal(_))).then(|| root.join(path))
}

/// Writes all of them, or none: half a change may be worse than none.
pub fn write_all(target: &Target, edits: &[FileEdit]) -> Result<(), DoctorError> {
    for (nth, edit) in edits.iter().enumerate() {
        if let Err(failed) = write(target, edit) {
            put_back(target, &edits[..nth]);
            return Err(failed);
        }
        say(&format!("{}: changed {}\n", target.name, edit.path));
    }
    Ok(())
}

/// Writes a file beside the one that is there, and puts it in its place.
fn write(target: &Target, edit: &FileEdit) -> Result<(), DoctorError> {
    let path = inside(&target.root, &edit.path)
        .ok_or_else(|| DoctorError::Wrong(format!("{} is not below the application's folder", edit.path)))?;
    acting(&target.run_as, || replace(&path, edit)).map_err(|error| DoctorError::of(&path)(error))
}

fn replace(path: &Path, edit: &FileEdit) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let Some(before) = &edit.before else {
        return options.open(path)?.write_all(edit.after.as_bytes());
    };
    // What a link leads to is somebody else's.
    let found = fs::symlink_metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is no regular file"));
    }
    if fs::read(path)? != before.as_bytes() {
        return Err(io::Error::other("it was changed in the meantime"));
    }
    let new = path.with_extension(format!("paceline-{}", std::process::id()));
    let written = options
        .open(&new)
        .and_then(|mut file| file.write_all(edit.after.as_bytes()))
        .and_then(|()| fs::set_permissions(&new, found.permissions()))
        .and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// Takes an edit back, if the file is still as it was written. What was done, as a sentence.
fn take_back(target: &Target, edit: &FileEdit) -> String {
    let path = &edit.path;
    let Some(file) = inside(&target.root, path) else { return format!("{path} is left as it is") };
    let done = acting(&target.run_as, || {
        let is_ours = fs::symlink_metadata(&file)?.is_file() && fs::read(&file)? == edit.after.as_bytes();
        if !is_ours {
            return Ok(format!("{path} was changed since, and is left as it is"));
        }
        match &edit.before {
            None => fs::remove_file(&file).map(|()| format!("{path} is removed again")),
            Some(before) => {
                let back = FileEdit { before: Some(edit.after.clone()), after: before.clone(), path: path.clone() };
                replace(&file, &back).map(|()| format!("{path} is as it was before"))
            }
        }
    });
    done.unwrap_or_else(|error: io::Error| format!("{path} still has the change: {error}"))
}

pub fn say(text: &str) {
    // A reader that went away is no failure.
    let _ = io::stdout().write_all(plain(text).as_bytes());
}

#[cfg(test)]
mod tests {
    use unix_user::RunAs;

    use super::*;
    use crate::config::test_folder::Folder;

    #[test]
    fn only_files_below_the_root() {
        let root = Path::new("/app");
        assert_eq!(inside(root, "config/initializers/a.rb"), Some("/app/config/initializers/a.rb".into()));
        for path in ["../a", "/etc/passwd", "config/../../a", "./a"] {
            assert_eq!(inside(root, path), None, "{path}");
        }
    }

    #[test]
    fn an_edit_is_taken_back_unless_somebody_has_changed_it() {
        let folder = Folder::with(&[("old.rb", "a\n"), ("changed.rb", "a\n")]);
        let target = Target { name: "shop".into(), root: folder.0.clone(), run_as: RunAs::own(), site: None };
        let edit = |path: &str, before: Option<&str>| FileEdit {
            path: path.into(),
            before: before.map(Into::into),
            after: "b\n".into(),
        };
        let (old, changed, new) = (edit("old.rb", Some("a\n")), edit("changed.rb", Some("a\n")), edit("new.rb", None));
        [&old, &changed, &new].into_iter().for_each(|edit| write(&target, edit).unwrap());
        fs::write(folder.0.join("changed.rb"), "c\n").unwrap();
        assert_eq!(take_back(&target, &old), "old.rb is as it was before");
        assert_eq!(take_back(&target, &changed), "changed.rb was changed since, and is left as it is");
        assert_eq!(take_back(&target, &new), "new.rb is removed again");
        assert!(take_back(&target, &new).starts_with("new.rb still has the change: "), "it is gone already");
        let files = ["old.rb", "changed.rb"].map(|file| fs::read_to_string(folder.0.join(file)).unwrap());
        assert_eq!((files, folder.0.join("new.rb").exists()), (["a\n".into(), "c\n".into()], false));
    }

    #[test]
    fn files_keep_their_mode_and_links_are_left_alone() {
        use std::os::unix::fs::{symlink, PermissionsExt};
        let folder = Folder::with(&[("a.rb", "old\n"), ("b.rb", "old\n")]);
        let edit = |path: &str, before: Option<&str>| FileEdit {
            path: path.into(),
            before: before.map(Into::into),
            after: "new\n".into(),
        };
        let file = folder.0.join("a.rb");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        replace(&file, &edit("a.rb", Some("old\n"))).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new\n");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
        let link = folder.0.join("link.rb");
        symlink(folder.0.join("b.rb"), &link).unwrap();
        assert!(replace(&link, &edit("link.rb", Some("old\n"))).is_err());
        assert!(replace(&link, &edit("link.rb", None)).is_err(), "there is something at the place of a new file");
        assert_eq!(fs::read_to_string(folder.0.join("b.rb")).unwrap(), "old\n");
        replace(&folder.0.join("config/new.rb"), &edit("config/new.rb", None)).unwrap();
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 4);
    }
}
