//! Another program shortens the mapped files while they are in use: nobody reads what was cut off, or the process says
//! why it ends.

use std::{
    env,
    os::unix::process::ExitStatusExt,
    process::{Command, Output},
};

use super::*;

const FOLDER: &str = "PACELINE_TEST_FOLDER";
const HOW: &str = "PACELINE_TEST_HOW";

fn shorten(file: &Path, part: u64) {
    let file = fs::OpenOptions::new().write(true).open(file).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length * part / 2).unwrap();
}

fn filled(folder: &Folder) -> (Disk, Arc<Mutex<Vec<String>>>) {
    let (disk, said) = folder.open();
    ten(&disk, &store());
    (disk, said)
}

#[test]
fn what_was_cut_off_is_not_read() {
    type Access = fn(&Disk);
    let accesses: [Access; 4] = [
        |disk| drop(disk.recall(&store(), key(0))),
        |disk| {
            let memory = store();
            put(disk, 20, &page("http://h/20", "", vec![1; 30]), memory.moment());
            flush(disk, &memory);
        },
        |disk| assert_eq!(purge(disk, &store(), Purge::Tag("t1".into()), How::Drop), 0),
        |disk| assert_eq!(purge(disk, &store(), Purge::All, How::Drop), 0),
    ];
    for name in [environment::FILE, environment::READERS] {
        for (part, access) in accesses.iter().flat_map(|access| [(0, access), (1, access)]) {
            let folder = Folder::new();
            let (disk, said) = filled(&folder);
            shorten(&folder.0.join(name), part);
            access(&disk);
            // Once more: it is said once.
            accesses.iter().for_each(|access| access(&disk));
            assert!(disk.usage().given_up && disk.usage().again_in.is_none());
            let lines = said.lock().unwrap().clone();
            assert!(
                lines.len() == 1
                    && lines[0].contains(&format!("another program shortened {}", folder.0.join(name).display()))
                    && lines[0].ends_with("It stays off until the next start"),
                "{lines:?}"
            );
            assert!(!folder.file().exists());
            drop(disk);
        }
    }
}

#[test]
fn the_next_one_begins_with_an_empty_file_and_says_so() {
    for (part, words) in [(0, "is empty): it starts empty"), (1, "is damaged (it is cut off): it starts empty")] {
        let folder = Folder::new();
        drop(filled(&folder));
        shorten(&folder.file(), part);
        let (disk, said) = folder.open();
        assert!(there(&disk).is_empty());
        let lines = said.lock().unwrap().clone();
        assert!(lines.len() == 1 && lines[0].contains(words), "{lines:?}");
        ten(&disk, &store());
        assert_eq!(there(&disk).len(), 10);
    }
}

fn in_a_process_of_its_own(how: &str, folder: &Folder) -> Output {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", "caching::disk::tests::shortened::child", "--ignored", "--nocapture"])
        .env(HOW, how)
        .env(FOLDER, &folder.0)
        .output()
        .unwrap()
}

#[test]
fn a_file_that_is_shortened_in_the_midst_of_an_access_ends_the_process_with_one_line() {
    let folder = Folder::new();
    let ended = in_a_process_of_its_own("shorten", &folder);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.signal(), Some(libc::SIGBUS), "{said}");
    let line = format!("paceline: SIGBUS ends the server: another program shortened {}", folder.file().display());
    assert_eq!(said.matches(&line).count(), 1, "{said}");
    let (disk, said) = folder.open();
    assert!(there(&disk).is_empty() && said.lock().unwrap().len() == 1, "{said:?}");
}

#[test]
fn any_other_sigbus_is_the_affair_of_the_handler_before() {
    let folder = Folder::new();
    let ended = in_a_process_of_its_own("raise", &folder);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.signal(), Some(libc::SIGBUS), "{said}");
    assert!(!said.contains("SIGBUS"), "{said}");
}

#[test]
#[ignore = "ends its process"]
#[allow(unsafe_code)]
fn child() {
    let folder = Folder(env::var_os(FOLDER).expect(FOLDER).into());
    let (disk, _) = filled(&folder);
    match env::var(HOW).expect(HOW).as_str() {
        "shorten" => {
            // The look at the files' length is behind it.
            let environment = disk.files().unwrap();
            let removed = environment.change(|txn| {
                shorten(&folder.file(), 0);
                environment.remove(txn, key(0))
            });
            panic!("it was read all the same: {removed:?}");
        }
        _ => {
            // The Rust runtime's handler makes way for the default action, and returns.
            // SAFETY: takes a number.
            let raised = unsafe { [libc::raise(libc::SIGBUS), libc::raise(libc::SIGBUS)] };
            panic!("SIGBUS was ignored: {raised:?}");
        }
    }
}
