// Package modelserver is what every mock of a model API stands on: a server on
// loopback, plain and with TLS under an authority of its own, that keeps what it
// was asked. It must never listen on anything but loopback and knows no API.
package modelserver
