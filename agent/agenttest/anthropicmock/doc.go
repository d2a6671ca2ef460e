// Package anthropicmock is a scripted Anthropic Messages API on loopback, for
// running a real agent program without a model: server-sent events, plain HTTP
// and TLS under an authority of its own, and faults. It owns what such a program
// needs and nothing more: POST /v1/messages, POST /v1/messages/count_tokens and
// HEAD. It must never listen on anything but loopback and never judge a prompt.
package anthropicmock
