// Package openaimock is a scripted OpenAI Responses API on loopback, for running
// a real agent program without a model: server-sent events, and faults. It owns
// what such a program needs and nothing more: POST …/responses and GET …/models.
// It must never judge a prompt.
package openaimock
