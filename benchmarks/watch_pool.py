"""Trainings side by side, each in a process of one thread; what is not done in time is left."""

import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

import torch


def work(job):
    """One of them, in a process of its own."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    function, arguments = job
    began = time.perf_counter()
    return arguments, function(*arguments), time.perf_counter() - began


def run_jobs(jobs, processes, seconds):
    """Arguments, answer and seconds of each job, in the order in which they end.

    Parameters
    ----------
    jobs : functions of a module, and their arguments.
    processes : how many at once.
    seconds : after which what still runs is ended.
    """
    until = time.perf_counter() + seconds
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        waiting = {pool.submit(work, job): job[1] for job in jobs}
        try:
            for done in as_completed(waiting, max(until - time.perf_counter(), 1e-3)):
                if done.exception() is not None:  # the others go on
                    print("failed:", *waiting[done], repr(done.exception()), flush=True)
                    continue
                yield done.result()
        except TimeoutError:
            print("time is over", flush=True)
            running = list(pool._processes.values())
            pool.shutdown(wait=False, cancel_futures=True)
            for process in running:
                process.kill()
