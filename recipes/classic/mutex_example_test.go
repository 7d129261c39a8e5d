package classic_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/lockkeeper/lockkeeper/recipes/classic"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Curator's InterProcessMutex on the same path excludes this one.
func ExampleNewMutex() {
	client, err := lock.NewClient(lock.Config{Servers: []string{"localhost:2181"}})
	if err != nil {
		log.Fatal(err)
	}
	mutex, err := classic.NewMutex(client.Client, "/locks/orders", classic.MutexOptions{})
	if err != nil {
		log.Fatal(err)
	}

	grant, err := mutex.TryAcquire(context.Background())
	if busy, ok := errors.AsType[*lock.NotAcquiredError](err); ok {
		fmt.Println("come back later:", busy)
		return
	}
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		if err := grant.Release(context.Background()); err != nil {
			log.Print(err)
		}
	}()

	token, err := grant.Token(context.Background()) // give it to whatever you write to
	if err != nil {
		log.Print(err)
		return
	}
	ctx := grant.Context(context.Background()) // ends when the lock is lost
	fmt.Println(token, ctx.Err())
}

// A writer becomes a reader without letting another writer in between.
func ExampleNewRWMutex() {
	client, err := lock.NewClient(lock.Config{Servers: []string{"localhost:2181"}})
	if err != nil {
		log.Fatal(err)
	}
	lock, err := classic.NewRWMutex(client.Client, "/locks/catalogue", classic.MutexOptions{})
	if err != nil {
		log.Fatal(err)
	}

	writer, err := lock.AcquireWrite(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	// change something
	reader, err := lock.AcquireRead(writer.Context(context.Background()))
	if err := errors.Join(err, writer.Release(context.Background())); err != nil {
		log.Fatal(err)
	}
	// read what was changed, beside others
	if err := reader.Release(context.Background()); err != nil {
		log.Fatal(err)
	}
}
