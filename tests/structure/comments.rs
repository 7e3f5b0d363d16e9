//! Files that comments of `src/` name are there, and do what is said of them: a user of a file uses
//! it, and a list of users has all.

use crate::{files, imports, module, modules_of, source, Files, Imports, Modules};
use std::collections::{BTreeMap, BTreeSet};

/// What a comment says before it names the users of something. Before a list of all users of a file
/// stands the first of these, with a capital.
const USERS: [&str; 7] = ["used by ", "called by ", "called from ", "made by ", "run by ", "started by ", "held by "];

/// First words of sentences that would be lists of users in other words.
const OTHER_WORDS: [&str; 18] = [
    "Added", "Asked", "Called", "Changed", "Emptied", "Filled", "Found", "Held", "Kept", "Made", "Opened", "Pushed",
    "Read", "Run", "Set", "Started", "Stored", "Written",
];

/// A list of more users than these may name some, 'among others'.
const MANY: usize = 6;

/// Names of functions that the standard library has as well: calls of them are not known to be of
/// the file that declares one.
const COMMON: [&str; 6] = ["as_ref", "as_str", "for_each", "from_raw", "into_raw", "try_lock"];

fn is_of_a_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The functions that a file declares.
fn declared(code: &str) -> BTreeSet<&str> {
    let names = code.split("fn ").skip(1).filter_map(|rest| rest.split(|c| !is_of_a_word(c)).next());
    names.filter(|name| !name.is_empty()).collect()
}

/// The functions that a file calls as methods or by a path.
fn called(code: &str) -> BTreeSet<&str> {
    let name = |(at, _): (usize, &str)| {
        let before = code[..at].trim_end_matches(is_of_a_word);
        before.ends_with(['.', ':']).then(|| &code[before.len()..at])
    };
    code.match_indices('(').filter_map(name).filter(|name| !name.is_empty()).collect()
}

/// For each module others that use it. The `certain` ones import it, or call a function that only
/// it declares. A `possible` one calls a function of a name that it declares.
#[derive(Default)]
struct Users {
    certain: Imports,
    possible: Imports,
}

fn users(modules: &Modules) -> Users {
    let mut users = Users::default();
    let mut add = |used: &str, user: &str, is_certain: bool| {
        let lists = [Some(&mut users.possible), is_certain.then_some(&mut users.certain)];
        for list in lists.into_iter().flatten().filter(|_| used != user) {
            list.entry(used.to_owned()).or_default().insert(user.to_owned());
        }
    };
    for (user, imported) in imports(modules) {
        imported.iter().for_each(|used| add(used, &user, true));
    }
    // The first page of a folder names the folder's files without `crate::`. What it only exports
    // it does not use.
    for used in modules.keys() {
        let Some((folder, file)) = used.rsplit_once("::") else { continue };
        let names_it = |line: &str| line.contains(&format!("{file}::")) && !line.starts_with("pub use");
        if modules.get(folder).is_some_and(|code| code.lines().any(names_it)) {
            add(used, folder, true);
        }
    }
    let mut declaring = BTreeMap::<&str, Vec<&str>>::new();
    for (module, code) in modules {
        declared(code).into_iter().for_each(|name| declaring.entry(name).or_default().push(module));
    }
    for (user, code) in modules {
        for name in called(code) {
            let modules = declaring.get(name).map_or(&[][..], Vec::as_slice);
            // A name of one word may be one of the standard library.
            let is_ours = name.trim_matches('_').contains('_') && !COMMON.contains(&name);
            for used in modules.iter().filter(|_| is_ours || modules.len() == 1) {
                add(used, user, is_ours && modules.len() == 1);
            }
        }
    }
    users
}

/// The users of a file. Those of a folder's first page are those of the folder.
fn users_of(path: &str, users: &Imports) -> BTreeSet<String> {
    let name = module(path);
    let is_inside = |module: &str| is_below(module, &name);
    match path.ends_with("/mod.rs") {
        false => users.get(&name).cloned().unwrap_or_default(),
        true => {
            let of_all = users.iter().filter(|(used, _)| is_inside(used)).flat_map(|(_, users)| users);
            of_all.filter(|user| !is_inside(user)).cloned().collect()
        }
    }
}

/// Whether a module is a folder, or lies in it.
fn is_below(module: &str, folder: &str) -> bool {
    module.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The comments of a file, each as one line: first its header, then each other block of comment
/// lines, with the name of the function below it.
fn comments(text: &str) -> Vec<String> {
    let (mut found, mut goes_on) = (vec![String::new()], false);
    for line in text.lines().map(str::trim_start) {
        if let Some(line) = line.strip_prefix("//!") {
            found[0].extend([line.trim(), " "]);
        } else if line.starts_with("//") {
            if !goes_on {
                found.push(String::new());
            }
            found.last_mut().expect("the header is there").extend([line.trim_start_matches('/').trim(), " "]);
        } else if goes_on && line.starts_with("#[") {
            continue;
        } else if goes_on {
            let function = line.split_once("fn ").and_then(|(_, rest)| rest.split(|c| !is_of_a_word(c)).next());
            found.last_mut().expect("as above").extend(function.map(|name| format!("`{name}`")));
        }
        goes_on = line.starts_with("//") && !line.starts_with("//!");
    }
    found
}

/// The names of Rust files and of folders between the backquotes of a text.
fn named(text: &str) -> Vec<&str> {
    let is_path = |name: &&str| {
        (name.ends_with(".rs") || name.ends_with('/')) && name.chars().all(|c| is_of_a_word(c) || "/.-".contains(c))
    };
    text.split('`').skip(1).step_by(2).filter(is_path).collect()
}

/// The last parts of the names of items between the backquotes of a text.
fn items(text: &str) -> Vec<&str> {
    let names = text.split('`').skip(1).step_by(2).filter_map(|name| name.rsplit("::").next());
    names.filter(|name| !name.is_empty() && name.chars().all(is_of_a_word)).collect()
}

/// The file or folder that a comment of the file `path` means by a name: it is looked for in the
/// folder of that file, then in each folder that holds this one. `None` if there is none in `src/`.
fn meant(name: &str, path: &str, files: &Files) -> Option<String> {
    let is_there = |place: &String| match place.ends_with('/') {
        true => files.keys().any(|path| path.starts_with(place)),
        false => files.contains_key(place),
    };
    let folders = path.rmatch_indices('/').map(|(at, _)| &path[..=at]).chain([""]);
    let mut places = folders.map(|folder| format!("{folder}{}", name.strip_prefix("src/").unwrap_or(name)));
    places.find(is_there)
}

/// The parts of a text between full stops, semicolons and colons.
fn clauses(text: &str) -> Vec<&str> {
    [". ", "; ", ": "]
        .iter()
        .fold(vec![text], |parts, end| parts.into_iter().flat_map(|part| part.split(end)).collect())
}

/// The starts of sentences that list users in [`OTHER_WORDS`].
fn other_words(header: &str) -> Vec<String> {
    let starts = header.split(". ").filter_map(|sentence| sentence.trim_start().split('`').next());
    let starts = starts.map(|start| start.split(' ').take(4).collect::<Vec<_>>());
    let is_list =
        |start: &Vec<&str>| OTHER_WORDS.contains(&start[0]) && (start.contains(&"by") || start.contains(&"from"));
    starts.filter(is_list).map(|start| start.join(" ")).collect()
}

/// Whether a module is a file, or lies in a folder, of `src/`.
fn is_at(module: &str, place: &str) -> bool {
    match place.strip_suffix('/') {
        Some(folder) => is_below(module, &self::module(folder)),
        None => module == self::module(place),
    }
}

/// What is wrong with the files that comments name.
fn wrong_names(files: &Files) -> Vec<String> {
    let modules = modules_of(files);
    let users = users(&modules);
    let is_in_repository = |name: &str| source().join("..").join(name).exists();
    let has = |place: &str, item: &str| {
        let mut there = modules.iter().filter(|(module, _)| is_at(module, place));
        there.any(|(_, code)| code.split(|c| !is_of_a_word(c)).any(|word| word == item))
    };
    let mut wrong = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| !path.ends_with("tests.rs")) {
        let (possible, certain) = (users_of(path, &users.possible), users_of(path, &users.certain));
        let places = |text| named(text).into_iter().map(|name| (name, meant(name, path, files)));
        let mut say = |what: String| wrong.push(format!("{path}: {what}"));
        for (number, comment) in comments(text).iter().enumerate() {
            let is_header = number == 0;
            let missing = places(comment).filter(|(name, place)| place.is_none() && !is_in_repository(name));
            missing.for_each(|(name, _)| say(format!("there is no {name}")));

            let mut names_users = false;
            for clause in clauses(comment) {
                let before = USERS.iter().filter_map(|words| clause.to_lowercase().find(words)).min();
                let Some(at) = before else { continue };
                // A function is used by a file that has its name.
                let functions = items(if is_header { clause } else { comment });
                for (name, place) in places(&clause[at..]) {
                    names_users = true;
                    let Some(place) = place else { continue };
                    let is_user = possible.iter().any(|user| is_at(user, &place));
                    let may_use = is_user && (is_header || functions.is_empty());
                    if !may_use && !functions.iter().any(|function| has(&place, function)) {
                        say(format!("{name} does not use it"));
                    }
                }
            }
            if !is_header {
                continue;
            }
            other_words(comment).into_iter().for_each(|start| say(format!("'{start}': say 'Used by'")));
            if comment.contains("among others") {
                if certain.len() <= MANY {
                    say(format!("it has {} users, so name them all", certain.len()));
                }
            } else if names_users {
                let named: Vec<String> = places(comment).filter_map(|(_, place)| place).collect();
                let left_out = certain.iter().filter(|user| !named.iter().any(|place| is_at(user, place)));
                left_out.for_each(|user| say(format!("{user} uses it too")));
            }
        }
    }
    wrong
}

#[test]
fn comments_name_files_that_are_there_and_do_so() {
    let wrong = wrong_names(&files());
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_check_of_comments_finds_what_it_looks_for() {
    let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    let used = |header: &str| {
        let users = (1..=MANY).map(|number| file(&format!("api/u{number}.rs"), "use crate::engine::b::B;"));
        let named = [
            file(
                "engine/b.rs",
                &format!("{header}\npub fn cut_off() {{}}\n/// Called by `c.rs`, not by `d.rs`.\nfn end() {{}}"),
            ),
            file("engine/c.rs", "fn c(b: B) { b.cut_off(); b.end() }"),
            file("engine/d.rs", "fn d() { d::d() }"),
        ];
        wrong_names(&users.chain(named).collect())
    };
    let wrong = |header: &str, expected: &[&str]| {
        let expected = [expected, &["d.rs does not use it"]].concat();
        assert_eq!(used(header), expected.iter().map(|rest| format!("engine/b.rs: {rest}")).collect::<Vec<_>>());
    };
    wrong("//! A file.\n//!\n//! Used by `api/` and\n//! `c.rs`.", &[]);
    wrong("//! Used by `src/api/u1.rs` and `engine/c.rs`, among others.", &[]);
    wrong(
        "//! `e.rs` is `f/` and `g/`, `src/api/u1.rs`, `tests/structure.rs`.",
        &["there is no e.rs", "there is no f/", "there is no g/"],
    );
    wrong("//! It is called by `api/` and `d.rs`.", &["d.rs does not use it", "engine::c uses it too"]);
    wrong("//! Called only by `c.rs` and `api/`.", &["'Called only by ': say 'Used by'"]);
    let few = [file("engine/b.rs", "//! Used by `c.rs`, among others."), file("engine/c.rs", "crate::engine::b::b()")];
    assert_eq!(wrong_names(&few.into()), ["engine/b.rs: it has 1 users, so name them all"]);
}
