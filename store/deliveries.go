package store

import (
	"context"
	"strings"
	"time"

	"nod"
)

const deliveryColumns = `id, guid, semantic_key, event, action, ord, payload, received_at, state, attempt, lease_until, not_before, note`

func scanDelivery(r scanner) (d nod.Delivery, err error) {
	err = r.Scan(&d.ID, &d.GUID, &d.SemanticKey, &d.Event, &d.Action, &d.Order, &d.Payload, toTime{&d.ReceivedAt}, &d.State, &d.Attempt,
		toTime{&d.LeaseUntil}, toTime{&d.NotBefore}, &d.Note)
	return d, err
}

// acceptQuery inserts a delivery once per GUID, and as ignored when another told
// of the same event.
const acceptQuery = `WITH twin AS (SELECT guid FROM deliveries WHERE semantic_key = ?2 AND semantic_key <> '' AND duplicate = 0)
	INSERT INTO deliveries (guid, semantic_key, duplicate, event, action, ord, payload, received_at, state, attempt, not_before, note)
	SELECT ?1, ?2, EXISTS (SELECT 1 FROM twin), ?3, ?4, ?5, ?6, ?7,
		CASE WHEN EXISTS (SELECT 1 FROM twin) THEN 'ignored' ELSE ?8 END, 0, ?9,
		coalesce('the same event as delivery ' || (SELECT guid FROM twin), ?10)
	WHERE true ON CONFLICT (guid) DO NOTHING RETURNING duplicate`

// AcceptDelivery makes a delivery durable before it returns. fresh is false when
// there is nothing more to do: the GUID is known, or another delivery told of the
// same event (its SemanticKey, when not empty); the latter is kept as ignored. A
// delivery whose State is ignored is kept as such, with its Note; any other
// begins as pending. ReceivedAt is now when it is not set. Deliveries that come at
// once share a transaction, which ends also where a caller's ctx does.
func (s *Store) AcceptDelivery(ctx context.Context, d nod.Delivery) (fresh bool, err error) {
	switch {
	case d.GUID == "" || d.Event == "":
		return false, invalid("a delivery has no GUID or no event")
	case d.State != "" && d.State != nod.DeliveryPending && d.State != nod.DeliveryIgnored:
		return false, invalid("a delivery begins as pending or ignored")
	case d.State == "":
		d.State = nod.DeliveryPending
	}
	d.Payload, d.Note = append([]byte{}, s.redact.payload(d.Payload)...), s.redact.text(d.Note)
	return s.acceptTogether(ctx, d)
}

const leaseQuery = `UPDATE deliveries SET state = 'leased', attempt = attempt + 1, lease_until = ?2 WHERE id = (
		SELECT id FROM deliveries AS d WHERE (state = 'pending' AND (not_before IS NULL OR not_before <= ?1) OR state = 'leased' AND lease_until <= ?1)
		AND NOT EXISTS (SELECT 1 FROM deliveries AS o WHERE o.ord = d.ord AND o.id <> d.id
			AND (o.id < d.id AND o.state IN ('pending', 'leased') OR o.state = 'leased' AND o.lease_until > ?1))
		ORDER BY id LIMIT 1)
	RETURNING ` + deliveryColumns

// LeaseDelivery takes the oldest due delivery whose Order is not leased, and of
// whose Order no older one is unfinished, for ttl; NotFound when there is none. A
// lease that ran out is due again.
func (s *Store) LeaseDelivery(ctx context.Context, ttl time.Duration) (nod.Delivery, error) {
	if ttl < time.Millisecond {
		return nod.Delivery{}, invalid("a lease must last at least a millisecond")
	}
	var d nod.Delivery
	err := s.write(ctx, func(t *txn) error {
		var err error
		d, err = one("delivery", t.row(leaseQuery, t.now.UnixMilli(), t.now.Add(ttl).UnixMilli()), scanDelivery)
		return err
	})
	return d, err
}

// putDelivery finishes, returns or buries a lease. Its attempt number is the
// fence: a worker whose lease ran out and was taken by another cannot end it.
func (t *txn) putDelivery(v *nod.Delivery) error {
	n := *v
	n.NotBefore, n.Note, n.LeaseUntil = moment(n.NotBefore), t.s.redact.text(n.Note), time.Time{}
	old, err := one("delivery", t.row(`SELECT `+deliveryColumns+` FROM deliveries WHERE id = ?`, n.ID), scanDelivery)
	if err != nil {
		return err
	}
	switch {
	case old.GUID != n.GUID:
		return conflict("a delivery never changes its GUID")
	case old.State != nod.DeliveryLeased || old.Attempt != n.Attempt:
		return conflict("delivery " + n.GUID + " is not leased by this worker any more")
	case n.State == nod.DeliveryLeased:
		return conflict("a lease ends by finishing, returning, ignoring or burying the delivery")
	}
	if err := reaches(nod.DeliveryMachine, &old, n.State, (*nod.Delivery).On, func(x *nod.Delivery) nod.DeliveryState { return x.State }); err != nil {
		return err
	}
	if _, err := t.exec(`UPDATE deliveries SET state = ?, lease_until = NULL, not_before = ?, note = ? WHERE id = ?`,
		n.State, millis(n.NotBefore), n.Note, n.ID); err != nil {
		return err
	}
	t.committed(func() { v.NotBefore, v.Note, v.LeaseUntil = n.NotBefore, n.Note, n.LeaseUntil })
	return nil
}

// DeliveriesByState counts the deliveries in each state; a state without any is
// not in it.
func (s *Store) DeliveriesByState(ctx context.Context) (map[nod.DeliveryState]int64, error) {
	type count struct {
		state nod.DeliveryState
		n     int64
	}
	counts, err := list(ctx, s.readers, func(r scanner) (c count, err error) {
		err = r.Scan(&c.state, &c.n)
		return c, err
	}, `SELECT state, count(*) FROM deliveries GROUP BY state`)
	if err != nil {
		return nil, mapped(ctx, err)
	}
	by := map[nod.DeliveryState]int64{}
	for _, c := range counts {
		by[c.state] = c.n
	}
	return by, nil
}

// Known returns which of guids were accepted before. The poller asks before it
// fetches payloads.
func (s *Store) Known(ctx context.Context, guids ...string) (map[string]bool, error) {
	known := map[string]bool{}
	for len(guids) > 0 {
		part := guids[:min(len(guids), maxEvents)]
		guids = guids[len(part):]
		args := make([]any, len(part))
		for i, g := range part {
			args[i] = g
		}
		found, err := list(ctx, s.readers, func(r scanner) (g string, err error) {
			err = r.Scan(&g)
			return g, err
		}, `SELECT guid FROM deliveries WHERE guid IN (?`+strings.Repeat(`, ?`, len(part)-1)+`)`, args...)
		if err != nil {
			return nil, mapped(ctx, err)
		}
		for _, g := range found {
			known[g] = true
		}
	}
	return known, nil
}
