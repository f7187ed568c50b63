-- How long an answer asked us to stay away, so that it can be proved from the receipts alone that we did.
ALTER TABLE amble.requests ADD COLUMN retry_after_s DOUBLE;  -- NULL: it asked for nothing, or the receipt is older
