-- Which version of its element a change brought, or, if it brought none, the last before it.
-- The last change of an element is never forgotten, so the next number is known from it.
ALTER TABLE change ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
UPDATE change SET version = counted.version FROM (
    SELECT number, sum(digest IS NOT NULL OR body IS NOT NULL)
        OVER (PARTITION BY element ORDER BY number) AS version FROM change
) AS counted WHERE counted.number = change.number;
-- What went wrong with a source, of late.
CREATE INDEX poll_wrong ON poll (source) WHERE error IS NOT NULL;
