package lockkeeper_test

import (
	"context"
	"fmt"

	"github.com/lockkeeper/lockkeeper"
	"github.com/lockkeeper/lockkeeper/zktest"
)

// Each grant of a scope has a larger token than the grants before it. A store that
// refuses smaller tokens is safe from a holder that does not know yet that it has lost
// the lock.
func Example_token() {
	ctx := context.Background()

	zk, err := zktest.Start()
	if err != nil {
		panic(err)
	}
	defer zk.Close()

	client, err := lockkeeper.Connect(zk.Addr())
	if err != nil {
		panic(err)
	}
	defer client.Close(ctx)
	guard, err := lockkeeper.NewGuard(client)
	if err != nil {
		panic(err)
	}

	var newest lockkeeper.Token // the store's
	write := func(row string, token lockkeeper.Token) {
		if token < newest {
			fmt.Println("refused:", row)
			return
		}
		newest = token
		fmt.Println("written:", row)
	}

	var tokens []lockkeeper.Token
	for _, row := range []string{"first", "second"} {
		err = guard.Do(ctx, lockkeeper.Requirement{Scope: "cluster/orders"}, func(ctx context.Context) error {
			hold, _ := lockkeeper.FromContext(ctx)
			tokens = append(tokens, hold.Token())
			write(row, hold.Token())
			return nil
		})
		if err != nil {
			panic(err)
		}
	}
	write("late, from the first holder", tokens[0])
	// Output:
	// written: first
	// written: second
	// refused: late, from the first holder
}
