package scenarios;

import static scenarios.Stage.beside;
import static scenarios.Stage.bytes;
import static scenarios.Stage.check;
import static scenarios.Stage.eventually;
import static scenarios.Stage.result;

import java.util.Collections;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooDefs;

/** Connections that are cut and a server that restarts: played alone, for it happens to all clients. */
final class Troubles {
    private Troubles() {}

    static Map<String, Main.Scenario> all() {
        return Collections.singletonMap("reconnect", Troubles::reconnect);
    }

    private static void reconnect(Stage stage) throws Exception {
        CuratorFramework client = stage.client(CuratorFrameworkFactory.builder().authorization("digest", bytes("ann:pw")));
        CuratorFramework other = stage.client();
        Mailbox states = new Mailbox();
        Stage.listen(client, states);
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        client.create().creatingParentsIfNeeded().withMode(CreateMode.EPHEMERAL).forPath(stage.path("mine"), bytes("m"));
        client.create().withACL(ZooDefs.Ids.CREATOR_ALL_ACL).forPath(stage.path("secret"), bytes("s"));
        InterProcessMutex held = new InterProcessMutex(client, stage.path("lock"));
        held.acquire();

        Mailbox heard = new Mailbox();
        CountDownLatch ready = new CountDownLatch(1);
        CuratorCache cache = CuratorCache.build(client, stage.path("tree"));
        cache.listenable().addListener(CuratorCacheListener.builder().forInitialized(ready::countDown).build());
        cache.listenable().addListener(CuratorCacheListener.builder().forAll((type, before, now) ->
                heard.put(type, (now == null ? before : now).getPath())).afterInitialized().build());
        client.create().forPath(stage.path("tree"), bytes("t"));
        cache.start();
        check(ready.await(Stage.SOON_SECONDS, TimeUnit.SECONDS), "not initialized");

        for (String trouble : new String[] {"cut", "restart"}) {
            Mailbox seen = new Mailbox();
            Watcher watcher = event -> {
                if (event.getType() != Watcher.Event.EventType.None) {
                    seen.put(event.getType(), event.getPath());
                }
            };
            // One watch of each kind, set before and triggered after.
            String node = stage.path("tree", trouble);
            client.checkExists().usingWatcher(watcher).forPath(node);
            stage.ask(trouble);
            stage.say("told:", states.take(), "then", states.take());
            stage.say("same session:", client.getZookeeperClient().getZooKeeper().getSessionId() == session,
                    client.checkExists().forPath(stage.path("mine")) != null, client.getData().forPath(stage.path("secret")));
            other.create().forPath(node, bytes("1"));
            stage.say("the watch is still set:", seen.take(), "and the cache's:", heard.take());
            client.getData().usingWatcher(watcher).forPath(node);
            other.setData().forPath(node, bytes("2"));
            stage.say("data:", seen.take(), "and the cache:", heard.take());
        }

        // What happens while the client is away it hears of when it is back, once.
        CuratorFramework away = stage.client();
        InterProcessMutex wanted = new InterProcessMutex(away, stage.path("lock"));
        Future<Boolean> waiting = beside(() -> {
            boolean got = wanted.acquire(Stage.SOON_SECONDS, TimeUnit.SECONDS);
            wanted.release();
            return got;
        });
        eventually(() -> held.getParticipantNodes().size() == 2);
        stage.ask("cut");
        stage.say("told:", states.take(), "then", states.take());
        stage.say("the queue:", held.getParticipantNodes(), waiting.isDone());
        held.release();
        stage.say("the waiter has it:", result(waiting));
        stage.ask("network down");
        stage.say("told:", states.take());
        Future<String> asked = beside(() -> Stage.string(client.getData().forPath(stage.path("tree"))));
        stage.ask("network up");
        stage.say("told:", states.take(), "asked meanwhile:", result(asked));
        for (CuratorFramework one : new CuratorFramework[] {other, away}) {
            stage.say("the others are back too:", one.getData().forPath(stage.path("tree")));
        }
        cache.close();
        client.delete().forPath(stage.path("secret"));
    }
}
