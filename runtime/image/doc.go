// Package image unpacks OCI images into root directories that environments show
// read-only: no daemon, no root's rights. An image is one directory under its
// digest, shared by every environment that asks for it.
//
// It owns the check of every byte against the digests of the manifest, and the
// limits of what an archive may make. It must never follow a link out of the
// directory that it fills, make a device or a file with a set-id bit, run
// anything of an image, or show a directory that is not complete.
package image
