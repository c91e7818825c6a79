"""The order of jobs: laws over random jobs."""

from hypothesis import given
from hypothesis import strategies as st

from onnxfn import ExportJob
from onnxfn.export.batch.schedule import Task, next_task

KINDS = st.sampled_from([None, "a", "b"])
TASKS = st.lists(st.tuples(KINDS, st.integers(0, 10)), min_size=1, max_size=8).map(
    lambda facts: [Task(n, ExportJob(str(n), str(n)), kind, size) for n, (kind, size) in enumerate(facts)]
)


@given(TASKS, st.integers(1, 10), st.integers(1, 4), st.randoms())
def test_all_jobs_run_within_the_memory_and_no_kind_is_traced_twice_at_a_time(tasks, memory, workers, random):
    waiting, running, known, ended = list(tasks), [], set(), []
    while waiting or running:
        while len(running) < workers and (task := next_task(waiting, running, known, memory)):
            waiting.remove(task)
            running.append(task)
        assert running, "jobs wait, and none runs"
        assert len(running) == 1 or sum(task.bytes for task in running) <= memory
        traced = [task.kind for task in running if task.kind is not None and task.kind not in known]
        assert len(traced) == len(set(traced))
        task = running.pop(random.randrange(len(running)))
        ended.append(task)
        known |= {task.kind} if random.random() < 0.7 else set()
    assert sorted(task.number for task in ended) == list(range(len(tasks)))


@given(TASKS)
def test_without_a_limit_and_without_kinds_jobs_start_in_their_order(tasks):
    plain = [Task(task.number, task.job, None, task.bytes) for task in tasks]
    assert next_task(plain, plain[1:], (), None) is plain[0]
