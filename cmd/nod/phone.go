package main

import (
	"fmt"
	"log/slog"
	"strings"

	"nod"
	"nod/notify"
)

// secondSecrets are those of the second channel.
type secondSecrets struct{ topic, webhook, token, pass nod.Secret }

// readPush reads the files that the way to the phone needs.
func (s *secrets) readPush(c NtfyConfig) error {
	type file struct {
		key, path string
		to        *nod.Secret
	}
	files := []file{{"topic_file", c.Topic, &s.topic}, {"token_file", c.Token, &s.token}, {"password_file", c.Pass, &s.pass}}
	if second := c.Second; second != nil {
		files = append(files, file{"second.topic_file", second.Topic, &s.second.topic}, file{"second.webhook_file", second.Webhook, &s.second.webhook},
			file{"second.token_file", second.Token, &s.second.token}, file{"second.password_file", second.Pass, &s.second.pass})
	}
	for _, f := range files {
		if f.path == "" && f.key != "topic_file" {
			continue
		}
		var err error
		if *f.to, err = secretFile(f.path); err != nil {
			return fmt.Errorf("ntfy.%s: %w", f.key, err)
		}
	}
	return nil
}

// channels makes the ways to a person. The second is nil when there is none.
func channels(c Config, s secrets, log *slog.Logger) (first, second notify.Channel, err error) {
	n, icon := c.Ntfy, strings.TrimSuffix(c.PublicURL, "/")+"/assets/mark.png"
	if first, err = notify.New(notify.Config{URL: n.URL, Topic: s.topic, Token: s.token, User: n.User, Pass: s.pass, Icon: icon, Log: log}); err != nil {
		return nil, nil, fmt.Errorf("ntfy: %w", err)
	}
	switch {
	case n.Second == nil:
		return first, nil, nil
	case n.Second.Webhook != "":
		second, err = notify.NewWebhook(notify.WebhookConfig{URL: s.second.webhook, Token: s.second.token, Log: log})
	default:
		second, err = notify.New(notify.Config{URL: n.Second.URL, Topic: s.second.topic, Token: s.second.token, User: n.Second.User, Pass: s.second.pass, Icon: icon, Log: log})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("ntfy.second: %w", err)
	}
	return first, second, nil
}
