package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mdp/qrterminal/v3"
	"github.com/spf13/cobra"

	"nod"
	"nod/notify"
	"nod/notify/answer"
	"nod/store"
)

// found is one thing that was looked at, as doctor prints it.
type found struct {
	What   string `json:"what"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Hint   string `json:"hint,omitempty"`
}

func printFound(w io.Writer, list []found) error {
	for _, f := range list {
		word := map[bool]string{true: "ok", false: "bad"}[f.OK]
		if _, err := fmt.Fprintf(w, "%-4s%s: %s\n", word, printable(f.What), printable(f.Detail)); err != nil {
			return err
		}
		if f.Hint != "" {
			if _, err := fmt.Fprintf(w, "    hint: %s\n", printable(f.Hint)); err != nil {
				return err
			}
		}
	}
	return nil
}

func setupNotifyCommand() *cobra.Command {
	return pushCommand("notify", "Make the topics, show how the phone subscribes, and send a test push that must be opened", true)
}

func doctorNotifyCommand() *cobra.Command {
	return pushCommand("notify", "Look at the way to the phone, with a test push that must be opened", false)
}

func pushCommand(use, short string, setup bool) *cobra.Command {
	var path string
	var asJSON bool
	var wait time.Duration
	c := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := LoadConfig(path)
			if err != nil {
				return err
			}
			if setup {
				if err := makeTopics(cfg.Ntfy, cmd.ErrOrStderr()); err != nil {
					return err
				}
			}
			list, err := tryPushes(cmd, cfg, wait, setup)
			if err != nil {
				return err
			}
			if asJSON {
				err = printJSON(cmd, list)
			} else {
				err = printFound(cmd.OutOrStdout(), list)
			}
			bad := 0
			for _, f := range list {
				if !f.OK {
					bad++
				}
			}
			if err == nil && bad > 0 {
				err = nod.E(nod.NeedsHuman, fmt.Sprintf("%d of %d things are not as they should be", bad, len(list)), nil)
			}
			return err
		}}
	configFlag(c, &path)
	c.Flags().DurationVar(&wait, "wait", 2*time.Minute, "how long the test push may take to be opened")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// makeTopics writes the topic files that are named and not there yet.
func makeTopics(c NtfyConfig, talk io.Writer) error {
	paths := []string{c.Topic}
	if c.Second != nil && c.Second.Topic != "" {
		paths = append(paths, c.Second.Topic)
	}
	for _, path := range paths {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return nod.E(nod.Invalid, "the topic file "+path+" cannot be made", err)
		}
		_, err = f.WriteString("nod-" + strings.ToLower(rand.Text()) + "\n")
		if err = errors.Join(err, f.Close()); err != nil {
			return nod.E(nod.Internal, "the topic file "+path+" cannot be written", err)
		}
		fmt.Fprintf(talk, "nod: made a topic in %s\n", filepath.Base(path))
	}
	return nil
}

// tryPushes looks at each channel and sends a test push through it.
func tryPushes(cmd *cobra.Command, cfg Config, wait time.Duration, setup bool) (list []found, err error) {
	sec, err := readSecrets(cfg)
	if err != nil {
		return nil, err
	}
	quiet := slog.New(slog.DiscardHandler)
	first, second, err := channels(cfg, sec, quiet)
	if err != nil {
		return nil, err
	}
	s, err := openStore(cmd.Context(), cfg, sec.all(), quiet)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	end, err := tapListener(cfg, s, quiet)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	for _, ch := range []struct {
		name string
		notify.Channel
	}{{"ntfy", first}, {"second channel", second}} {
		if ch.Channel == nil {
			continue
		}
		add := func(what, detail string, err error) bool {
			f := found{What: ch.name + ", " + what, OK: err == nil, Detail: detail}
			if err != nil {
				f.Detail = nod.PublicMessage(err)
				var e *nod.Error
				if errors.As(err, &e) {
					f.Hint = e.Hint
				}
			}
			list = append(list, f)
			return err == nil
		}
		if p, ok := ch.Channel.(*notify.Publisher); ok {
			if !add("server", "it answers and is well", p.Healthy(cmd.Context())) {
				continue
			}
			if setup {
				link := p.Subscribe()
				fmt.Fprintf(cmd.ErrOrStderr(), "nod: subscribe with the ntfy app; whoever knows this link can read along:\n%s\n", link)
				qrterminal.GenerateHalfBlock(link, qrterminal.M, cmd.ErrOrStderr())
			}
		}
		token := rand.Text()
		if err := s.CreateTap(cmd.Context(), nod.Digest([]byte(token)), time.Now().Add(wait+time.Minute)); err != nil {
			return nil, err
		}
		push := notify.Trial(cfg.PublicURL, token, ch.name != "ntfy")
		id, err := ch.Send(cmd.Context(), push)
		if !add("push", "it was taken", err) {
			continue
		}
		if id != "" {
			detail := "pushes can be read back: one whose answer was lost is not sent twice"
			if ch.Sent(cmd.Context(), push, time.Minute) == "" {
				detail = "pushes cannot be read back: one whose answer was lost rings twice; read-write access ends that"
			}
			add("reading back", detail, nil)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "nod: sent a test push through %s; open it within %s\n", ch.name, wait)
		add("opened", "the push arrived and its link leads here", awaitTap(cmd.Context(), s, token, wait))
	}
	return list, nil
}

// awaitTap waits until the test push was opened.
func awaitTap(ctx context.Context, s *store.Store, token string, wait time.Duration) error {
	limit, done := context.WithTimeout(ctx, wait)
	defer done()
	tick := time.NewTicker(200 * time.Millisecond) // another process may record it
	defer tick.Stop()
	for {
		tapped, err := s.Tappable(ctx, nod.Digest([]byte(token)))
		if err != nil || tapped {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.Done():
			return &nod.Error{Code: nod.NeedsHuman, Msg: "nobody opened the test push", Hint: "is the phone subscribed, does it show the push, and does it reach public_url?"}
		case <-tick.C:
		}
	}
}

// tapListener serves the page that the test push leads to, unless a serving nod does.
func tapListener(cfg Config, s *store.Store, log *slog.Logger) (end func() error, err error) {
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return func() error { return nil }, nil // nod serve has it, and shares the store
	}
	page, err := answer.New(answer.Config{Decisions: s, Witness: s, Streams: s, Passkeys: s, Sessions: s, PublicURL: cfg.PublicURL, Log: log})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	server := &http.Server{Handler: page, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	return func() error {
		page.Close()
		err := server.Close()
		if e := <-ended; !errors.Is(e, http.ErrServerClosed) {
			err = errors.Join(err, e)
		}
		return err
	}, nil
}
