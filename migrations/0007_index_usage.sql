-- Budgets sum what was used by day.
CREATE INDEX events_used ON events (at) WHERE kind = 'usage';
