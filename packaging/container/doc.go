// Package container makes the image of lockkeeper from the Dockerfile, without a container
// runtime or a registry, and has the tests of all that runs lockkeeper in containers: the
// image, the manifests for Kubernetes, the project for Compose.
//
// The one idea: the Dockerfile is the only description of the image. [Read] reads its
// stages with BuildKit's own parser; [Build] runs its go build and packs what its last stage
// says. It is a module of its own: users of the framework need none of what it imports.
package container
