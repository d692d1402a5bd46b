//! Bodies, by their content.

use std::fs;
use std::path::PathBuf;

use springtide_store::{Bodies, BodyId, Error, Freed, Problem};
use tempfile::TempDir;

fn bodies() -> (TempDir, Bodies) {
    let folder = tempfile::tempdir().unwrap();
    let bodies = Bodies::open(folder.path()).unwrap();
    (folder, bodies)
}

fn path(folder: &TempDir, id: BodyId) -> PathBuf {
    let name = id.to_string();
    folder.path().join(&name[..2]).join(&name[2..])
}

fn problems(bodies: &Bodies, named: &[BodyId]) -> Vec<Problem> {
    let mut problems = Vec::new();
    bodies
        .check(&mut |id| named.contains(&id), &mut |problem| {
            problems.push(problem);
        })
        .unwrap();
    problems
}

/// Bytes that nothing makes shorter.
fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

#[test]
fn a_body_comes_back_as_it_was_put() {
    let (folder, bodies) = bodies();
    let page = b"<p>All work and no play makes a dull body.</p>\n".repeat(1000);
    for body in [&b""[..], b"a", &[0; 63], &[0; 64], &page, &noise(5000)] {
        let id = bodies.put(body).unwrap();
        assert_eq!(id, BodyId::of(body));
        assert!(bodies.contains(id));
        assert_eq!(bodies.get(id).unwrap(), body);
    }
    let length = |body: &[u8]| {
        let file = path(&folder, BodyId::of(body));
        fs::metadata(file).unwrap().len() as usize
    };
    assert!(length(&page) < page.len() / 50);
    assert!(length(&noise(5000)) <= 5009);
}

#[test]
fn a_name_is_the_digest_in_hexadecimal() {
    let id = BodyId::of(b"abc");
    // From the reference implementation, b3sum.
    let name = "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85";
    assert_eq!(id.to_string(), name);
    assert_eq!(name.parse(), Ok(id));
    for wrong in [
        "",
        "64",
        &name[1..],
        &name.replace('6', "g"),
        &name.replace('6', "é"),
    ] {
        assert!(wrong.parse::<BodyId>().is_err(), "{wrong}");
    }
}

#[test]
fn a_body_that_is_there_is_not_written_again() {
    let (folder, bodies) = bodies();
    let id = bodies.put(b"once").unwrap();
    let before = fs::metadata(path(&folder, id)).unwrap().modified().unwrap();
    bodies.put(b"once").unwrap();
    let after = fs::metadata(path(&folder, id)).unwrap().modified().unwrap();
    assert_eq!(before, after);
    // But an empty file is not a body: a machine died.
    fs::write(path(&folder, id), b"").unwrap();
    assert!(!bodies.contains(id));
    bodies.put(b"once").unwrap();
    assert_eq!(bodies.get(id).unwrap(), b"once");
}

#[test]
fn a_body_that_is_not_what_it_was_is_damaged() {
    let (folder, bodies) = bodies();
    for body in [noise(100), vec![7; 10_000]] {
        let id = bodies.put(&body).unwrap();
        let whole = fs::read(path(&folder, id)).unwrap();
        let mut flipped = whole.clone();
        *flipped.last_mut().unwrap() ^= 1;
        let mut longer = whole.clone();
        longer[1..9].copy_from_slice(&u64::MAX.to_le_bytes());
        let mut huge = whole.clone();
        huge[1..9].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
        let mut shorter = whole.clone();
        shorter[1] -= 1;
        let mut other = whole.clone();
        other[0] = b'?';
        let cut = whole[..whole.len() - 1].to_vec();
        let stub = whole[..5].to_vec();
        for damaged in [flipped, longer, huge, shorter, other, cut, stub, Vec::new()] {
            fs::write(path(&folder, id), damaged).unwrap();
            assert!(matches!(bodies.get(id), Err(Error::Damaged(_))));
            assert_eq!(problems(&bodies, &[id]), [Problem::BodyDamaged(id)]);
        }
        bodies.remove(id).unwrap();
        assert!(matches!(bodies.get(id), Err(Error::Damaged(_))));
    }
}

#[test]
fn what_was_begun_and_what_nothing_names_is_reported_and_collected() {
    let (folder, bodies) = bodies();
    let kept = bodies.put(&noise(100)).unwrap();
    let unnamed = bodies.put(&noise(200)).unwrap();
    let begun = folder.path().join("new/1-2-3");
    fs::write(&begun, b"half").unwrap();
    let foreign = folder.path().join("README");
    fs::write(&foreign, b"not ours").unwrap();
    let found = problems(&bodies, &[kept]);
    assert_eq!(found.len(), 3);
    assert!(found.contains(&Problem::BodyUnnamed(unnamed)));
    assert!(found.contains(&Problem::StrayFile(begun)));
    assert!(found.contains(&Problem::StrayFile(foreign.clone())));
    let freed = bodies.gc(&mut |id| id == kept).unwrap();
    let expected = Freed {
        n_files: 2,
        n_bytes: 209 + 4,
    };
    assert_eq!(freed, expected);
    assert_eq!(problems(&bodies, &[kept]), [Problem::StrayFile(foreign)]);
    assert!(bodies.contains(kept));
    assert!(!bodies.contains(unnamed));
}

#[test]
fn many_threads_may_put_the_same_bodies() {
    let (_folder, bodies) = bodies();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for number in 0..200_u32 {
                    let body = number.to_le_bytes().repeat(50);
                    let id = bodies.put(&body).unwrap();
                    assert_eq!(bodies.get(id).unwrap(), body);
                }
            });
        }
    });
    let named: Vec<BodyId> = (0..200_u32)
        .map(|number| BodyId::of(&number.to_le_bytes().repeat(50)))
        .collect();
    assert_eq!(problems(&bodies, &named), []);
}

#[test]
fn a_damaged_body_is_replaced_when_it_is_put_again() {
    let (folder, bodies) = bodies();
    let id = bodies.put(b"as it was").unwrap();
    let path = path(&folder, id);
    let n_bytes = fs::metadata(&path).unwrap().len();
    for damage in [vec![], vec![0; n_bytes as usize], b"s".to_vec()] {
        fs::write(&path, damage).unwrap();
        assert!(!bodies.is_sound(id));
        assert_eq!(bodies.put(b"as it was").unwrap(), id);
        assert!(bodies.is_sound(id));
        assert_eq!(bodies.get(id).unwrap(), b"as it was");
    }
}
