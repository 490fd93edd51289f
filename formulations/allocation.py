r"""Segment allocation under the machine model, as a mixed integer linear program (Pyomo).

Sets
    i, j, k   stages (operators) in topological order;  d in copies_i  candidate numbers of copies
    e         tensors with a choice;  o  placements of e;  p  ports: main memory, buffer, the arrays of each tensor
Data (integers; cycles over all chunks)
    a_i arrays of one copy, M_i rows, tau_i cycles of one MVM, C_i chunks, V_i vector cycles, w_i write cycles of
    the longest tile, W_i of all tiles of a copy, P arrays written at once, A arrays,
    use_{i,eo,p,action} traffic (action: fetch, write, operand)
Variables
    y_id, z_eo in {0,1};  L_i busy cycles but for the MVMs, lambda_i latency of one chunk, s_i start, f_i finish,
    g_i writing and r_i end of writing of an operand,
    T makespan, H_r, Q_r idle time of a saturated resource r (vector unit, main memory, buffer) at the start and end, R reload

    minimise  T + R                                                                                     [cycles]
    (1)  sum_d y_id = 1
    (2)  sum_o z_eo = 1
    (3)  sum_id a_i d y_id <= A_compute ;  sum_eo arrays_eo z_eo <= A_memory ;  both together <= A
    (4)  sum_eo bytes_eo z_eo <= buffer bytes
    (5)  m_i = sum_d ceil(M_i / d) tau_i y_id            (recurrent: C_i times the MVMs of a chunk, as in lambda)
    (6)  load_{i,p} = fixed_{i,p} + sum_eo use_{i,eo,p} z_eo     without operand reads; the arrays of e carry all users' load
    (7)  L_i >= V_i ;  L_i >= load_{i,p} for p main memory and buffer ;  L_i >= sum_k load_{k,arrays of e}  for each user i of e ;
         L_i >= C_i lambda_i  for a recurrent stage
    (8)  lambda_i = v_i + sum_d ceil(ceil(M_i / C_i) / d) tau_i y_id ,  v_i = (fetch_i + V_i + write_i) / C_i ,
             fetch_i >= fetch_{i,p} ,  write_i >= write_{i,p}  for every port p
         n chunks of i take  t_i(n) = max( lambda_i + (n - 1)/C_i L_i ,  v_i + n/C_i m_i )  (one row for each term)
         f_i >= s_i + t_i(C_i)
         for every dependence k -> j, m over the stages between:
             s_j >= s_k + t_k(first) + sum_m lambda_m
             f_j >= f_k + sum_m lambda_m + t_j(last)
         for every dynamic operand k -> j instead, w_j(d) = max(w_j, ceil(W_j d / P)) the time on the write drivers, which take
         one operand after another (i the one before j):
             s_j >= r_j ,  r_j >= f_k + g_j ,  r_j >= r_i + sum_d w_j(d) y_jd ,  g_j >= operand_{j,p} ,  g_j >= sum_d w_j(d) y_jd
    (9)  T >= f_i ;  T >= sum of all traffic of p, for the arrays p of each tensor ;  T >= work_r + H_r + Q_r  for every
         resource r with work: it idles while the pipeline fills, H_r >= s_j - done_jr  for every j > 1 , and for the vector unit
         H >= fetch_1/C_1 + c_1 ; and while the last stages drain, Q_r >= t_j(last) - rest_jr  for their direct dependences.
         work_r is all of the resource's work, operand reads included; done_jr what must precede the start of j, rest_jr what is
         left of j's when its producer has finished; c is the sum over d in lambda.
    (10) i over the stages with weights to reload:
         R >= reload cycles (reading the weights and writing one copy, a constant) ;  P R >= sum_id W_i d y_id

Improves on equations (6) to (10) of CMSwitch (arXiv 2502.17006): copies are whole, every port is priced, the pipeline fills,
memory arrays hold data. Times are in units of ``model.unit`` cycles inside the model, to keep coefficients within 1 .. 1e6;
the objective is in cycles.
"""

from __future__ import annotations

import pyomo.core as pyo

from formulations.blocks import chosen, start_at
from formulations.copies import OptionCopies
from formulations.segment import SegmentAllocation, SegmentProblem
from formulations.stages import placements, segment_program

TIME_MARGIN = 1e-6  # by how much floating-point sums of the rows may exceed the exact cost


def build_segment_allocation(problem: SegmentProblem) -> pyo.ConcreteModel:
    """The program of ``problem``. ValueError if the problem is not well formed.

    ``model.y[i, d]`` and ``model.z[e, o]`` are the choices; :func:`read_segment_allocation` reads them back.
    """
    return segment_program(problem, "segment_allocation", OptionCopies)


def relax_segment_allocation(problem: SegmentProblem) -> pyo.ConcreteModel:
    """The program of ``problem`` without integrality: a linear program whose optimum bounds it from below, usually closely."""
    model = build_segment_allocation(problem)
    for choice in (*model.y.values(), *model.z.values()):
        choice.domain = pyo.UnitInterval
    return model


def read_segment_allocation(model: pyo.ConcreteModel, problem: SegmentProblem) -> SegmentAllocation:
    """The choice that the values of ``model`` stand for. ValueError if the model has no values (nothing was solved)."""
    return SegmentAllocation(
        copies=chosen(model.y, [stage.copies for stage in problem.stages]),
        placements=chosen(model.z, placements(problem)),
    )


def allocation_start(problem: SegmentProblem, allocation: SegmentAllocation) -> dict[str, float]:
    """Values of the choices of ``allocation`` by variable name: a warm start."""
    copies = start_at("y", [stage.copies for stage in problem.stages], allocation.copies)
    return copies | start_at("z", placements(problem), allocation.placements)


def bound_times(model: pyo.ConcreteModel, cycles: float) -> None:
    """Bound every time of the program from above, for a solver that needs finite ranges. Any form whose times are in units of
    ``model.unit`` cycles will do; what has an upper bound keeps it.

    ``cycles`` is what some allocation costs. The optimum stays: with each variable as small as its rows allow, none of them
    exceeds T or R, and neither of these the objective.
    """
    longest = cycles * (1 + TIME_MARGIN) / model.unit
    for time in model.component_data_objects(pyo.Var):
        if time.is_continuous() and time.ub is None:
            time.setub(longest)
