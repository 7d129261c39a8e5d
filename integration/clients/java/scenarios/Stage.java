package scenarios;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.RetryForever;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.data.Stat;

/** The scene of one scenario: a part of the tree of its own, clients, and a transcript. */
final class Stage {
    /** How long anything that must happen may take on a busy machine. */
    static final long SOON_SECONDS = 120;

    /** How long clients' sessions outlive their connections. */
    static final int SESSION_MILLIS = 20_000;

    // What differs from run to run: unique ids in names.
    private static final Pattern UNIQUE =
            Pattern.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}");

    private final String connect;
    private final String root;
    private final boolean troubled;
    private final StringBuilder transcript = new StringBuilder();
    private final List<CuratorFramework> clients = Collections.synchronizedList(new ArrayList<>());

    /** A troubled stage may ask for trouble, and writes its transcript at once. */
    Stage(String connect, String root, boolean troubled) {
        this.connect = connect;
        this.root = root;
        this.troubled = troubled;
    }

    /** Something that may fail. */
    interface Call {
        void run() throws Exception;
    }

    boolean isTroubled() {
        return troubled;
    }

    String connect() {
        return connect;
    }

    String transcript() {
        return transcript.toString();
    }

    String path(String... names) {
        StringBuilder path = new StringBuilder(root);
        for (String name : names) {
            path.append('/').append(name);
        }
        return path.toString();
    }

    /** Writes a line of the transcript. It must be the same in every run, on every server. */
    synchronized void say(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.length() > 0 ? " " : "").append(text(word));
        }
        transcript.append(line).append('\n');
        if (troubled) {
            System.out.println(line);
            System.out.flush();
        }
    }

    private String text(Object word) {
        String text = word instanceof byte[] ? string((byte[]) word) : String.valueOf(word);
        return UNIQUE.matcher(text.replace(root, "~")).replaceAll("<unique>");
    }

    /** Has the test do something to the server or the network, and returns when it is done. */
    void ask(String what) throws InterruptedException {
        say("! " + what);
        check("done".equals(Main.ANSWERS.take()), "the test did not " + what);
    }

    /** Says with which error a call fails. One that does not fail ends the scenario. */
    void refused(String what, Call call) {
        try {
            call.run();
        } catch (KeeperException e) {
            say(what + ":", e.code());
            return;
        } catch (Exception e) {
            say(what + ":", e.getClass().getSimpleName());
            return;
        }
        throw new AssertionError(what + ": not refused");
    }

    /** A client with a session of its own, which ends with the scenario at the latest. */
    CuratorFramework client() throws Exception {
        return client(CuratorFrameworkFactory.builder());
    }

    CuratorFramework client(CuratorFrameworkFactory.Builder builder) throws Exception {
        CuratorFramework client = builder.connectString(connect)
                .sessionTimeoutMs(SESSION_MILLIS)
                .connectionTimeoutMs((int) TimeUnit.SECONDS.toMillis(SOON_SECONDS))
                .retryPolicy(new RetryForever(20))
                .defaultData(bytes("default"))
                .build();
        clients.add(client);
        // The news of the first connection must have reached every listener before a recipe listens: listeners read all
        // their state once more.
        CompletableFuture<Thread> teller = new CompletableFuture<>();
        client.getConnectionStateListenable().addListener((c, state) -> teller.complete(Thread.currentThread()));
        client.start();
        Thread thread = result(teller);
        eventually(() -> thread.getState() == Thread.State.TIMED_WAITING);
        if (clients.size() == 1) {
            // A plain node: recipes would make it a container, and that may go at any moment.
            client.create().creatingParentsIfNeeded().forPath(root, bytes("root"));
        }
        return client;
    }

    /** Has a client report what happens to its connection. */
    static void listen(CuratorFramework client, Mailbox states) {
        client.getConnectionStateListenable().addListener((c, state) -> states.put(state));
    }

    /** Ends a client's session on the server: another client takes it over and closes it. */
    void expire(CuratorFramework client) throws Exception {
        CountDownLatch lost = new CountDownLatch(1);
        client.getConnectionStateListenable().addListener((c, state) -> {
            if (state == ConnectionState.LOST) {
                lost.countDown();
            }
        });
        ZooKeeper session = client.getZookeeperClient().getZooKeeper();
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SOON_SECONDS);
        // The client itself may reconnect in between and push the other one out: then once more.
        do {
            check(System.nanoTime() < deadline, "the session does not expire");
            CountDownLatch connected = new CountDownLatch(1);
            ZooKeeper thief = new ZooKeeper(connect, SESSION_MILLIS, event -> {
                if (event.getState() == Watcher.Event.KeeperState.SyncConnected
                        || event.getState() == Watcher.Event.KeeperState.Expired) {
                    connected.countDown();
                }
            }, session.getSessionId(), session.getSessionPasswd());
            check(connected.await(SOON_SECONDS, TimeUnit.SECONDS), "cannot take the session over");
            thief.close();
        } while (!lost.await(2, TimeUnit.SECONDS));
    }

    /**
     * Says what is there from path on: names, data, and whether a node is ephemeral. Nodes without data and without
     * anything below are left out: most are containers, which the server removes whenever it gets to it.
     */
    void tree(CuratorFramework client, String path) throws Exception {
        List<String> lines = new ArrayList<>();
        walk(client, path, lines);
        Collections.sort(lines);
        for (String line : lines) {
            say(" ", line);
        }
    }

    private void walk(CuratorFramework client, String path, List<String> lines) throws Exception {
        try {
            Stat stat = new Stat();
            byte[] data = client.getData().storingStatIn(stat).forPath(path);
            int before = lines.size();
            for (String child : client.getChildren().forPath(path)) {
                walk(client, path + "/" + child, lines);
            }
            boolean empty = data == null || data.length == 0;
            if (empty && lines.size() == before && stat.getEphemeralOwner() == 0) {
                return;
            }
            lines.add(text(path) + (empty ? "" : " = " + text(printable(data)))
                    + (stat.getEphemeralOwner() == 0 ? "" : " (ephemeral)"));
        } catch (KeeperException.NoNodeException e) {
            return; // gone meanwhile
        }
    }

    private static String printable(byte[] data) {
        StringBuilder text = new StringBuilder();
        for (byte b : data) {
            text.append(b >= ' ' && b <= '~' ? String.valueOf((char) b) : String.format("\\x%02x", b));
        }
        return text.toString();
    }

    /** Says what the scenario leaves behind when all its sessions have ended, and removes it. */
    void close() throws Exception {
        for (CuratorFramework client : new ArrayList<>(clients)) {
            client.close();
        }
        try (CuratorFramework cleaner = client()) {
            say("left behind:");
            tree(cleaner, root);
            cleaner.delete().quietly().deletingChildrenIfNeeded().forPath(root);
        }
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String string(byte[] data) {
        return data == null ? "null" : new String(data, StandardCharsets.UTF_8);
    }

    /** A call that runs beside the scenario. */
    static <T> Future<T> beside(Callable<T> call) {
        FutureTask<T> task = new FutureTask<>(call);
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        return task;
    }

    /** What a call beside the scenario returned, waited for; or its error, thrown. */
    static <T> T result(Future<T> task) throws Exception {
        try {
            return task.get(SOON_SECONDS, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            if (e.getCause() instanceof Exception) {
                throw (Exception) e.getCause();
            }
            throw e;
        }
    }

    /** Waits until the condition holds. It does not as long as it asks for nodes that are not there. */
    static void eventually(Callable<Boolean> condition) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SOON_SECONDS);
        while (!holds(condition)) {
            check(System.nanoTime() < deadline, "not true after " + SOON_SECONDS + " seconds");
            TimeUnit.MILLISECONDS.sleep(5);
        }
    }

    private static boolean holds(Callable<Boolean> condition) throws Exception {
        try {
            return condition.call();
        } catch (KeeperException.NoNodeException e) {
            return false;
        }
    }

    static void check(boolean condition, String otherwise) {
        if (!condition) {
            throw new AssertionError(otherwise);
        }
    }
}
