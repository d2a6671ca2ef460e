package storetest

import (
	"testing"
	"time"

	"nod"
)

func passkeys(t *testing.T, open Open) {
	signIn := func(f *fixture, k *key, token string, count uint32) error {
		f.Helper()
		c := f.id("c")
		must(f, f.SaveChallenge(f.ctx, nod.Challenge{ID: c, Kind: nod.ChallengeSignIn, Bytes: make([]byte, 32), ExpiresAt: f.now().Add(time.Minute)}))
		err := f.SignIn(f.ctx, c, count, true, nod.Session{TokenDigest: token, Passkey: k.id, Device: "phone", Idle: 10 * time.Minute, ExpiresAt: f.now().Add(time.Hour)})
		_, gone := f.Challenge(f.ctx, c)
		wants(f, "the challenge is used up", gone, nod.NotFound)
		return err
	}
	t.Run("EnrolmentWorksOnce", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		token := nod.Digest([]byte("token"))
		must(t, f.CreateEnrolment(f.ctx, nod.Enrolment{TokenDigest: token, Name: "phone", ExpiresAt: f.now().Add(time.Minute)}))
		if e, err := f.Enrolment(f.ctx, token); err != nil || e.Name != "phone" {
			t.Errorf("enrolment: %+v, %v", e, err)
		}
		for _, id := range []string{"c1", "c2"} {
			must(t, f.SaveChallenge(f.ctx, nod.Challenge{ID: id, Kind: nod.ChallengeEnrol, Bytes: make([]byte, 32), Enrolment: token, ExpiresAt: f.now().Add(time.Minute)}))
		}
		p := nod.Passkey{ID: "cred", UserHandle: []byte{1}, PublicKey: []byte{2}, AAGUID: []byte{3}, SignCount: 4, BackupEligible: true}
		must(t, f.Enrol(f.ctx, "c1", p))
		wants(t, "the same challenge", f.Enrol(f.ctx, "c1", p), nod.Unauthenticated)
		p.ID = "second"
		wants(t, "the same link", f.Enrol(f.ctx, "c2", p), nod.Unauthenticated)
		_, err := f.Enrolment(f.ctx, token)
		wants(t, "a used link", err, nod.NotFound)
		keys, err := f.Passkeys(f.ctx)
		if err != nil || len(keys) != 1 || keys[0].ID != "cred" || keys[0].Name != "phone" || keys[0].SignCount != 4 || !keys[0].CreatedAt.Equal(f.now()) {
			t.Errorf("passkeys: %+v, %v", keys, err)
		}
		if kinds := f.kinds(nod.SupervisorStream); len(kinds) != 1 || kinds[0] != nod.EventPasskeyEnrolled {
			t.Errorf("events: %v", kinds)
		}
	})
	t.Run("WhatExpiredIsGone", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		must(t, f.CreateEnrolment(f.ctx, nod.Enrolment{TokenDigest: "t", ExpiresAt: f.now().Add(time.Minute)}))
		must(t, f.SaveChallenge(f.ctx, nod.Challenge{ID: "c", Kind: nod.ChallengeEnrol, Bytes: make([]byte, 32), Enrolment: "t", ExpiresAt: f.now().Add(2 * time.Minute)}))
		f.pass(time.Minute)
		_, err := f.Enrolment(f.ctx, "t")
		wants(t, "enrolment", err, nod.NotFound)
		wants(t, "enrol by it", f.Enrol(f.ctx, "c", nod.Passkey{ID: "p", PublicKey: []byte{1}}), nod.Unauthenticated)
		f.pass(time.Minute)
		_, err = f.Challenge(f.ctx, "c")
		wants(t, "challenge", err, nod.NotFound)
	})
	t.Run("ChallengeForAnAnswerLivesTwoMinutesAtMost", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		must(t, f.SaveChallenge(f.ctx, nod.Challenge{ID: "c", Kind: nod.ChallengeAnswer, Bytes: make([]byte, 32), Nonce: "n", Decision: "d", Answer: nod.Allow,
			Data: []byte("kept"), ExpiresAt: f.now().Add(time.Hour)}))
		if c, err := f.Challenge(f.ctx, "c"); err != nil || string(c.Data) != "kept" || !c.ExpiresAt.Equal(f.now().Add(nod.ChallengeLife)) {
			t.Errorf("challenge: %+v, %v", c, err)
		}
		f.pass(nod.ChallengeLife)
		_, err := f.Challenge(f.ctx, "c")
		wants(t, "after two minutes", err, nod.NotFound)
	})
	t.Run("SessionLivesUntilItEndsOrIsEnded", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		k := f.enrol()
		must(t, signIn(f, k, "s1", 1))
		must(t, signIn(f, k, "s2", 2))
		f.pass(time.Minute)
		if s, err := f.Session(f.ctx, "s1"); err != nil || s.Passkey != k.id || !s.SeenAt.Equal(f.now()) || !s.CreatedAt.Equal(f.now().Add(-time.Minute)) {
			t.Errorf("session: %+v, %v", s, err)
		}
		must(t, f.SignOut(f.ctx, "s1"))
		must(t, f.SignOut(f.ctx, "s1"))
		_, err := f.Session(f.ctx, "s1")
		wants(t, "signed out", err, nod.NotFound)
		f.pass(time.Hour)
		_, err = f.Session(f.ctx, "s2")
		wants(t, "expired", err, nod.NotFound)
		if keys, err := f.Passkeys(f.ctx); err != nil || keys[0].SignCount != 2 || !keys[0].BackedUp {
			t.Errorf("passkeys: %+v, %v", keys, err)
		}
	})
	t.Run("SignInWithACounterThatGoesBackIsForbidden", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		k := f.enrol()
		must(t, signIn(f, k, "s0", 0)) // some authenticators do not count
		must(t, signIn(f, k, "s1", 7))
		wants(t, "the same counter", signIn(f, k, "s2", 7), nod.Forbidden)
		wants(t, "no counter any more", signIn(f, k, "s2", 0), nod.Forbidden)
		wants(t, "no challenge", f.SignIn(f.ctx, "c", 8, true, nod.Session{TokenDigest: "s", Passkey: k.id, Idle: time.Hour, ExpiresAt: f.now().Add(time.Hour)}), nod.Unauthenticated)
	})
	t.Run("RevokingEndsSessionsAtOnce", func(t *testing.T) {
		f := newFixture(t, open, Setup{})
		k, kept := f.enrol(), f.enrol()
		must(t, signIn(f, k, "s", 1))
		must(t, signIn(f, kept, "kept", 1))
		wants(t, "revoked by a passkey", f.RevokePasskey(f.ctx, k.id, nod.Actor{Kind: nod.ActorPasskey, Passkey: kept.id}), nod.Forbidden)
		must(t, f.RevokePasskey(f.ctx, k.id, host))
		head := f.head()
		must(t, f.RevokePasskey(f.ctx, k.id, host))
		if f.head() != head {
			t.Error("revoking a second time left an event")
		}
		_, err := f.Session(f.ctx, "s")
		wants(t, "its session", err, nod.NotFound)
		wants(t, "signing in", signIn(f, k, "s2", 2), nod.Forbidden)
		if _, err := f.Session(f.ctx, "kept"); err != nil {
			t.Errorf("another passkey's session: %v", err)
		}
		if keys, err := f.Passkeys(f.ctx); err != nil || len(keys) != 1 || keys[0].ID != kept.id {
			t.Errorf("passkeys: %+v, %v", keys, err)
		}
		wants(t, "one that is not there", f.RevokePasskey(f.ctx, "nothing", host), nod.NotFound)
	})
}
