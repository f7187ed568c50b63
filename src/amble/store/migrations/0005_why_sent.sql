-- Why a request was made that was not made for its own sake alone, such as one repeated over a new connection.
ALTER TABLE amble.requests ADD COLUMN why_sent VARCHAR;  -- NULL: for its own sake, or the receipt is older
