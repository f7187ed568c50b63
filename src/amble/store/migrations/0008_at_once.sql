-- How many requests of the domain might be under way at once when this one was sent, itself included, and when it was
-- over, on the clock of started_s: so that it can be proved from the receipts alone that there were no more.
ALTER TABLE amble.requests ADD COLUMN at_once_max INTEGER;  -- NULL: the receipt is older
ALTER TABLE amble.requests ADD COLUMN ended_s DOUBLE;
