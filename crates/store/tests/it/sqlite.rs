use springtide_store::*;
#[test]
fn smoke() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Sqlite::create_or_open(folder.path()).unwrap();
    let group = GroupId::new(0).unwrap();
    let element = Element {
        id: ElementId(0),
        source: SourceId(1),
        locator: "https://a/".into(),
        group,
        host: group,
        role: Role::Page,
        weight: 1.0,
        depth: 0,
    };
    store.commit(&[Fact::Element(element.clone())]).unwrap();
    assert_eq!(
        store.find(SourceId(1), "https://a/").unwrap(),
        Some(Kept::new(element))
    );
    assert!(matches!(
        Sqlite::create_or_open(folder.path()),
        Err(Error::InUse)
    ));
    let beside = Sqlite::read_only(folder.path()).unwrap();
    assert_eq!(beside.n_new().unwrap(), [(group, 1)]);
    drop(store);
    let beside = Sqlite::read_only(folder.path()).unwrap();
    assert_eq!(beside.n_new().unwrap(), [(group, 1)]);
}
