package peers;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.locks.Revoker;
import org.apache.curator.retry.RetryForever;

/** Takes turns with Curator's recipes: Main CONNECT PATH REFEREE THREADS KIND [LIMIT]. */
public final class Main {
    private Main() {}

    /** What is acquired and released; write tells a writer from a reader. */
    interface Recipe {
        void acquire(boolean write) throws Exception;

        void release(boolean write) throws Exception;
    }

    public static void main(String[] args) throws Exception {
        background(Main::live);
        String path = args[1];
        int referee = Integer.parseInt(args[2]);
        int threads = Integer.parseInt(args[3]);
        String kind = args[4];
        int limit = args.length > 5 ? Integer.parseInt(args[5]) : 1;
        try (CuratorFramework client = CuratorFrameworkFactory.builder().connectString(args[0])
                .sessionTimeoutMs(args[4].equals("hold") ? 10_000 : 20_000).connectionTimeoutMs(30_000).retryPolicy(new RetryForever(20))
                .defaultData("java".getBytes(StandardCharsets.UTF_8)).build()) {
            client.start();
            client.blockUntilConnected();
            switch (kind) {
                case "revocable":
                    revocable(client, path, referee);
                    return;
                case "hold":
                    hold(client, path, referee);
                    return;
                case "revoke":
                    Revoker.attemptRevoke(client, path);
                    return;
                default:
            }
            List<Future<Void>> players = new ArrayList<>();
            for (int i = 0; i < threads; i++) {
                FutureTask<Void> player = new FutureTask<>(() -> {
                    play(recipe(client, kind, path, limit), referee);
                    return null;
                });
                players.add(player);
                background(player);
            }
            for (Future<Void> player : players) {
                player.get();
            }
        }
    }

    private static Recipe recipe(CuratorFramework client, String kind, String path, int limit) {
        switch (kind) {
            case "mutex":
                InterProcessMutex mutex = new InterProcessMutex(client, path);
                return new Recipe() {
                    @Override
                    public void acquire(boolean write) throws Exception {
                        mutex.acquire();
                    }

                    @Override
                    public void release(boolean write) throws Exception {
                        mutex.release();
                    }
                };
            case "readwrite":
                InterProcessReadWriteLock lock = new InterProcessReadWriteLock(client, path);
                return new Recipe() {
                    @Override
                    public void acquire(boolean write) throws Exception {
                        side(lock, write).acquire();
                    }

                    @Override
                    public void release(boolean write) throws Exception {
                        side(lock, write).release();
                    }
                };
            case "semaphore":
                InterProcessSemaphoreV2 semaphore = new InterProcessSemaphoreV2(client, path, limit);
                return new Recipe() {
                    private Lease lease;

                    @Override
                    public void acquire(boolean write) throws Exception {
                        lease = semaphore.acquire();
                    }

                    @Override
                    public void release(boolean write) {
                        semaphore.returnLease(lease);
                    }
                };
            default:
                throw new IllegalArgumentException(kind);
        }
    }

    private static InterProcessLock side(InterProcessReadWriteLock lock, boolean write) {
        if (write) {
            return lock.writeLock();
        }
        return lock.readLock();
    }

    private static void play(Recipe recipe, int port) throws Exception {
        try (Referee referee = new Referee(port)) {
            for (String turn = referee.ask("turn"); !turn.equals("stop"); turn = referee.ask("turn")) {
                boolean write = turn.equals("write");
                recipe.acquire(write);
                referee.ask("enter java");
                referee.ask("leave");
                recipe.release(write);
            }
        }
    }

    /** Holds a mutex until somebody asks for it. */
    private static void revocable(CuratorFramework client, String path, int port) throws Exception {
        CountDownLatch asked = new CountDownLatch(1);
        InterProcessMutex mutex = new InterProcessMutex(client, path);
        mutex.makeRevocable(revoked -> asked.countDown());
        try (Referee referee = new Referee(port)) {
            referee.ask("turn");
            mutex.acquire();
            referee.ask("enter java");
            asked.await();
            referee.ask("leave");
            mutex.release();
        }
    }

    /** Holds a mutex until it is killed. */
    private static void hold(CuratorFramework client, String path, int port) throws Exception {
        try (Referee referee = new Referee(port)) {
            referee.ask("turn");
            new InterProcessMutex(client, path).acquire();
            referee.ask("enter java");
            Thread.sleep(Long.MAX_VALUE);
        }
    }

    /** The line to the referee. */
    private static final class Referee implements AutoCloseable {
        private final Socket socket;
        private final BufferedReader in;
        private final PrintWriter out;

        Referee(int port) throws Exception {
            socket = new Socket("127.0.0.1", port);
            socket.setTcpNoDelay(true);
            in = new BufferedReader(new InputStreamReader(socket.getInputStream(), StandardCharsets.UTF_8));
            out = new PrintWriter(socket.getOutputStream(), true, StandardCharsets.UTF_8);
        }

        String ask(String line) throws Exception {
            out.print(line + "\n");
            out.flush();
            String answer = in.readLine();
            if (answer == null) {
                throw new IllegalStateException("the referee has left");
            }
            return answer;
        }

        @Override
        public void close() throws Exception {
            socket.close();
        }
    }

    private static void background(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
    }

    /** Nothing outlives the test: when it is gone, so is this program. */
    private static void live() {
        try {
            while (System.in.read() >= 0) {
                // nothing is said
            }
        } catch (java.io.IOException e) {
            // as good as the end
        }
        Runtime.getRuntime().halt(3);
    }
}
