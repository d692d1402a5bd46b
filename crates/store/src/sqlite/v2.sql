-- What is known of the queries of search sources.
CREATE TABLE query (
    source INTEGER NOT NULL,
    text TEXT NOT NULL,
    asked_at INTEGER NOT NULL,
    n_requests INTEGER NOT NULL,
    -- What a server says may be any number of 64 bits; from 2^63 on it is negative here.
    total INTEGER,
    n_results INTEGER NOT NULL,
    n_ours INTEGER NOT NULL,
    note TEXT,
    memory BLOB NOT NULL,
    PRIMARY KEY (source, text)
) WITHOUT ROWID;
