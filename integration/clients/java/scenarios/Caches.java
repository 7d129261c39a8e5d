package scenarios;

import static scenarios.Stage.bytes;
import static scenarios.Stage.check;
import static scenarios.Stage.eventually;

import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.cache.ChildData;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.zookeeper.CreateMode;

/** Copies of parts of the tree that follow it, by the old watches and by the persistent ones. */
@SuppressWarnings("deprecation") // the old ones are still what most programs use
final class Caches {
    private Caches() {}

    static void addTo(Map<String, Main.Scenario> all) {
        all.put("curatorcache", Caches::curatorCache);
        all.put("treecache", Caches::treeCache);
        all.put("pathcache", Caches::pathCache);
        all.put("nodecache", Caches::nodeCache);
    }

    /** Changes of all kinds, one at a time: each is made when the one before has been heard of. */
    private static void changes(Stage stage, CuratorFramework other, Mailbox heard) throws Exception {
        String[] steps = {"create", "set", "below", "set below", "ephemeral", "delete below", "delete"};
        for (String step : steps) {
            switch (step) {
                case "create":
                    other.create().forPath(stage.path("tree", "b"), bytes("1"));
                    break;
                case "set":
                    other.setData().forPath(stage.path("tree", "b"), bytes("2"));
                    break;
                case "below":
                    other.create().forPath(stage.path("tree", "b", "c"), bytes("3"));
                    break;
                case "set below":
                    other.setData().forPath(stage.path("tree", "b", "c"), bytes("4"));
                    break;
                case "ephemeral":
                    other.create().withMode(CreateMode.EPHEMERAL).forPath(stage.path("tree", "e"), bytes("5"));
                    break;
                case "delete below":
                    other.delete().forPath(stage.path("tree", "b", "c"));
                    break;
                default:
                    other.delete().forPath(stage.path("tree", "b"));
            }
            stage.say(step + ":", heard.take());
        }
        other.close();
        stage.say("its session ends:", heard.take());
    }

    private static CuratorFramework seed(Stage stage) throws Exception {
        CuratorFramework other = stage.client();
        other.create().creatingParentsIfNeeded().forPath(stage.path("tree", "a"), bytes("a"));
        return other;
    }

    private static void curatorCache(Stage stage) throws Exception {
        CuratorFramework other = seed(stage);
        Mailbox heard = new Mailbox();
        CountDownLatch ready = new CountDownLatch(1);
        try (CuratorCache cache = CuratorCache.build(stage.client(), stage.path("tree"))) {
            cache.listenable().addListener(CuratorCacheListener.builder().forInitialized(ready::countDown).build());
            cache.listenable().addListener(CuratorCacheListener.builder().forAll(
                    (type, before, now) -> heard.put(type, text(before), "to", text(now))).afterInitialized().build());
            cache.start();
            check(ready.await(Stage.SOON_SECONDS, TimeUnit.SECONDS), "not initialized");
            stage.say("at first:", cache.size(), cache.stream().map(Caches::text).collect(Collectors.toCollection(TreeSet::new)));
            changes(stage, other, heard);
            stage.say("at last:", cache.size(), cache.get(stage.path("tree", "a")).map(Caches::text).orElse("none"));
        }
    }

    private static void treeCache(Stage stage) throws Exception {
        CuratorFramework other = seed(stage);
        Mailbox heard = new Mailbox();
        try (TreeCache cache = new TreeCache(stage.client(), stage.path("tree"))) {
            cache.getListenable().addListener((client, event) -> heard.put(event.getType(), text(event.getData())));
            cache.start();
            for (int i = 0; i < 3; i++) {
                stage.say("at first:", heard.take());
            }
            changes(stage, other, heard);
            stage.say("at last:", cache.getCurrentChildren(stage.path("tree")).keySet());
        }
    }

    private static void pathCache(Stage stage) throws Exception {
        CuratorFramework other = seed(stage);
        CuratorFramework client = stage.client();
        Mailbox heard = new Mailbox();
        try (PathChildrenCache cache = new PathChildrenCache(client, stage.path("tree"), true)) {
            cache.getListenable().addListener((c, event) -> heard.put(event.getType(), text(event.getData())));
            cache.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
            stage.say("at first:", texts(cache.getCurrentData()));
            other.create().forPath(stage.path("tree", "b"), bytes("1"));
            stage.say("create:", heard.take());
            other.create().forPath(stage.path("tree", "b", "too-deep"), bytes("1"));
            other.setData().forPath(stage.path("tree", "b"), bytes("2"));
            stage.say("set:", heard.take());
            other.create().withMode(CreateMode.EPHEMERAL).forPath(stage.path("tree", "e"), bytes("3"));
            stage.say("ephemeral:", heard.take());
            stage.say("meanwhile:", texts(cache.getCurrentData()));
            other.delete().deletingChildrenIfNeeded().forPath(stage.path("tree", "b"));
            stage.say("delete:", heard.take());
            other.close();
            stage.say("its session ends:", heard.take());
            stage.say("at last:", texts(cache.getCurrentData()), heard.isEmpty());
        }
    }

    private static void nodeCache(Stage stage) throws Exception {
        CuratorFramework other = seed(stage);
        String path = stage.path("tree", "n");
        try (NodeCache cache = new NodeCache(stage.client(), path)) {
            Mailbox heard = new Mailbox();
            cache.getListenable().addListener(() -> heard.put(text(cache.getCurrentData())));
            cache.start(true);
            stage.say("at first:", text(cache.getCurrentData()));
            other.create().forPath(path, bytes("1"));
            stage.say("create:", heard.take());
            other.setData().forPath(path, bytes("2"));
            stage.say("set:", heard.take());
            other.delete().forPath(path);
            stage.say("delete:", heard.take());
            eventually(() -> cache.getCurrentData() == null);
        }
    }

    private static List<String> texts(List<ChildData> all) {
        return all.stream().map(Caches::text).collect(Collectors.toList());
    }

    private static String text(ChildData data) {
        if (data == null) {
            return "nothing";
        }
        return data.getPath() + " " + Stage.string(data.getData())
                + " version " + data.getStat().getVersion();
    }
}
