CREATE TABLE source (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    kind INTEGER NOT NULL,
    url TEXT NOT NULL,
    added_at INTEGER NOT NULL,
    n_elements INTEGER NOT NULL,
    n_new INTEGER NOT NULL,
    n_failing INTEGER NOT NULL,
    n_blocked INTEGER NOT NULL,
    n_gone INTEGER NOT NULL,
    n_polls INTEGER NOT NULL,
    n_changes INTEGER NOT NULL,
    error_kind TEXT,
    error_message TEXT,
    error_at INTEGER
);

CREATE TABLE element_group (
    id INTEGER PRIMARY KEY,
    parent INTEGER,
    name TEXT NOT NULL
);

CREATE TABLE group_memory (
    group_id INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL
);

CREATE TABLE host (
    group_id INTEGER PRIMARY KEY,
    requested_at INTEGER,
    not_before INTEGER,
    not_before_reason TEXT,
    n_failures INTEGER NOT NULL,
    -- By which it is told whether the rows in robots have to be written again.
    robots_digest BLOB NOT NULL
);

CREATE TABLE robots (
    number INTEGER PRIMARY KEY,
    group_id INTEGER NOT NULL,
    origin TEXT NOT NULL,
    fetched_at INTEGER NOT NULL,
    answer INTEGER NOT NULL,
    rules TEXT
);
CREATE INDEX robots_of_host ON robots (group_id);

CREATE TABLE note (
    name TEXT PRIMARY KEY,
    bytes BLOB NOT NULL
) WITHOUT ROWID;

-- Running numbers of the store's own.
CREATE TABLE counter (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- What changes seldom; what changes with every poll is in chunk.
CREATE TABLE element (
    id INTEGER PRIMARY KEY,
    source INTEGER NOT NULL,
    locator TEXT NOT NULL,
    group_id INTEGER NOT NULL,
    host INTEGER NOT NULL,
    role INTEGER NOT NULL,
    weight REAL NOT NULL,
    depth INTEGER NOT NULL,
    state INTEGER NOT NULL,
    failure_kind TEXT,
    failure_message TEXT,
    failure_at INTEGER,
    n_failures INTEGER NOT NULL,
    is_unlisted INTEGER NOT NULL
);
CREATE INDEX element_of_source ON element (source);
CREATE INDEX element_new ON element (host) WHERE state = 0;

CREATE TABLE new_elements (
    host INTEGER PRIMARY KEY,
    n INTEGER NOT NULL
);

-- Records of consecutive elements, a page full each: see record.rs.
CREATE TABLE chunk (
    id INTEGER PRIMARY KEY,
    bytes BLOB NOT NULL
);

-- Elements by the hash of their locator. Hashes fall anywhere, so in one large
-- tree every insertion would write a page of its own; they are gathered in small
-- trees and moved on in order: see locator.rs.
CREATE TABLE locator_new (
    hash INTEGER NOT NULL,
    element INTEGER NOT NULL,
    PRIMARY KEY (hash, element)
) WITHOUT ROWID;
CREATE TABLE locator_young (
    hash INTEGER NOT NULL,
    element INTEGER NOT NULL,
    PRIMARY KEY (hash, element)
) WITHOUT ROWID;
CREATE TABLE locator_old (
    hash INTEGER NOT NULL,
    element INTEGER NOT NULL,
    PRIMARY KEY (hash, element)
) WITHOUT ROWID;

CREATE TABLE copy (
    element INTEGER PRIMARY KEY,
    status INTEGER NOT NULL,
    etag TEXT,
    last_modified TEXT,
    content_type TEXT,
    digest BLOB NOT NULL,
    body BLOB NOT NULL,
    n_bytes INTEGER NOT NULL,
    fetched_at INTEGER NOT NULL,
    changed_at INTEGER,
    location TEXT,
    sketch BLOB NOT NULL
);

CREATE TABLE poll (
    number INTEGER PRIMARY KEY,
    element INTEGER NOT NULL,
    source INTEGER NOT NULL,
    begun_at INTEGER NOT NULL,
    at INTEGER NOT NULL,
    since INTEGER,
    outcome INTEGER NOT NULL,
    status INTEGER,
    error TEXT,
    purpose INTEGER NOT NULL,
    is_counted INTEGER NOT NULL,
    age_ms INTEGER
);
CREATE INDEX poll_of_element ON poll (element);
CREATE INDEX poll_audit ON poll (at) WHERE purpose = 1;
CREATE INDEX poll_counted ON poll (begun_at) WHERE is_counted = 1;

CREATE TABLE change (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    element INTEGER NOT NULL,
    source INTEGER NOT NULL,
    found_at INTEGER NOT NULL,
    -- The latest found_at up to this number. It never falls, so those found since
    -- a moment are looked for by halving.
    latest_at INTEGER NOT NULL,
    previous_poll_at INTEGER,
    kind INTEGER NOT NULL,
    bytes_before INTEGER,
    bytes_after INTEGER,
    digest BLOB,
    body BLOB,
    content_type TEXT,
    size REAL
);
CREATE INDEX change_of_source ON change (source);
CREATE INDEX change_of_element ON change (element);
