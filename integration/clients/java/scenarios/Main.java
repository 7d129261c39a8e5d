package scenarios;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/**
 * Plays all scenarios for Curator: Main CONNECT ROOT. Each writes its transcript to stdout, after a line "=== NAME";
 * all else goes to stderr. With --list it names them.
 */
public final class Main {
    /** How long all of them together may take. */
    private static final long LONGEST_SECONDS = 600;

    /** How many are played at the same time: most of their time is waiting. */
    private static final int AT_ONCE = 6;

    /** What the test says to what a scenario asks for. */
    static final Mailbox ANSWERS = new Mailbox();

    private Main() {}

    /** What a scenario does on its stage. */
    interface Scenario {
        void play(Stage stage) throws Exception;
    }

    /** Those that leave the server and the network alone. */
    private static Map<String, Scenario> quiet() {
        Map<String, Scenario> all = new LinkedHashMap<>();
        Basics.addTo(all);
        Locks.addTo(all);
        Leaders.addTo(all);
        Counters.addTo(all);
        Caches.addTo(all);
        Kinds.addTo(all);
        Meetings.addTo(all);
        Sessions.addTo(all);
        return all;
    }

    public static void main(String[] args) throws Exception {
        Map<String, Scenario> quiet = quiet();
        Map<String, Scenario> troubled = Troubles.all();
        if (args.length == 1 && args[0].equals("--list")) {
            quiet.keySet().forEach(System.out::println);
            troubled.keySet().forEach(System.out::println);
            return;
        }
        background(Main::watch);
        background(Main::hear);
        String connect = args[0];
        String root = args[1];
        boolean whole = true;
        ExecutorService pool = Executors.newFixedThreadPool(AT_ONCE);
        List<Future<Boolean>> played = new ArrayList<>();
        quiet.forEach((name, scenario) ->
                played.add(pool.submit(() -> play(name, scenario, new Stage(connect, root + "/" + name, false)))));
        for (Future<Boolean> one : played) {
            whole &= one.get();
        }
        for (Map.Entry<String, Scenario> one : troubled.entrySet()) {
            Stage stage = new Stage(connect, root + "/" + one.getKey(), true);
            System.out.println("=== " + one.getKey());
            whole &= play(one.getKey(), one.getValue(), stage);
        }
        System.exit(whole ? 0 : 1);
    }

    private static boolean play(String name, Scenario scenario, Stage stage) {
        long start = System.nanoTime();
        boolean whole = true;
        try {
            scenario.play(stage);
            stage.close();
        } catch (Throwable failure) {
            whole = false;
            stage.say("failed:", failure);
            System.err.println(name + ":");
            failure.printStackTrace();
        }
        System.err.printf("%s: %d ms%n", name, TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start));
        if (!stage.isTroubled()) {
            System.out.print("=== " + name + "\n" + stage.transcript());
        }
        System.out.flush();
        return whole;
    }

    private static void background(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
    }

    /** Takes the test's answers. Nothing outlives the test: when it is gone, so is this program. */
    private static void hear() {
        Scanner lines = new Scanner(System.in, StandardCharsets.UTF_8);
        while (lines.hasNextLine()) {
            ANSWERS.put(lines.nextLine());
        }
        Runtime.getRuntime().halt(3);
    }

    /** Ends the program with a picture of its threads when it takes too long. */
    private static void watch() {
        try {
            TimeUnit.SECONDS.sleep(LONGEST_SECONDS);
        } catch (InterruptedException e) {
            return;
        }
        Thread.getAllStackTraces().forEach((thread, frames) -> {
            System.err.println(thread);
            for (StackTraceElement frame : frames) {
                System.err.println("    " + frame);
            }
        });
        Runtime.getRuntime().halt(2);
    }
}
