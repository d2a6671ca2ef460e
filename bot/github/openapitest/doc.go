// Package openapitest holds what is said to a GitHub, and what it answers, against
// GitHub's own OpenAPI description. It is for tests. It owns no copy of the
// description: the directory that NOD_OPENAPI names holds the published files.
package openapitest
