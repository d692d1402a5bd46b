-- What is remembered, by what it is of: notes of all elements and the memories of
-- groups come together here.
CREATE TABLE memory (
    -- 0: of a scheduler, 1: of the pace, 2: of a search source, 3: of a group.
    kind INTEGER NOT NULL,
    -- Of the partition, of the source or of the group.
    number INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (kind, number)
) WITHOUT ROWID;
INSERT INTO memory SELECT 0, 0, bytes FROM note WHERE name = 'scheduler';
INSERT INTO memory SELECT 1, 0, bytes FROM note WHERE name = 'pace';
INSERT INTO memory SELECT 3, group_id, bytes FROM group_memory ORDER BY group_id;
DROP TABLE group_memory;
DELETE FROM note WHERE name IN ('scheduler', 'pace');
-- The note 'search' is taken apart by schema.rs.
