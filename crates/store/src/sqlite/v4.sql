-- Where the locator of an element sends us on for good: until it has done so for a
-- while, and if no other element is sent there, that is no move.
ALTER TABLE copy ADD COLUMN redirect_to TEXT;
ALTER TABLE copy ADD COLUMN redirect_first_at INTEGER;
ALTER TABLE copy ADD COLUMN redirect_last_at INTEGER;
ALTER TABLE copy ADD COLUMN n_redirects INTEGER;
ALTER TABLE copy ADD COLUMN is_move INTEGER;
CREATE INDEX copy_redirect_to ON copy (redirect_to) WHERE redirect_to IS NOT NULL;
