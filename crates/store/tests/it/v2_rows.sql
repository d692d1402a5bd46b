-- What stores of version 2 hold besides what those of version 1 do: queries, and what a
-- run remembers as notes. The note 'search' is of all search sources: number, length and
-- bytes of each.
PRAGMA user_version = 2;
INSERT INTO query VALUES(1,'tide',1700000000003,2,40,20,5,NULL,X'080808');
INSERT INTO note VALUES('pace',X'0a0b');
INSERT INTO note VALUES('register',X'0c');
INSERT INTO note VALUES('scheduler',X'0d0e0f');
INSERT INTO note VALUES('search',X'000000000200000010110100000000000000070000000100000012');
