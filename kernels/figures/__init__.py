"""Data to HTML: figures and tables as pure functions. Same data, same bytes; colours live in the site's stylesheet."""

from kernels.figures.banks import bank_figure, bank_tile
from kernels.figures.charts import bar_chart, line_chart
from kernels.figures.choice import case_table, choice_table, enough_chart, score_table
from kernels.figures.divergence import divergence_figure
from kernels.figures.error_budget import error_budget_chart, error_budget_table
from kernels.figures.exercises import exercise_answers, exercise_lists, exercise_overview
from kernels.figures.explorers import access_explorer, merge_explorer, roofline_explorer, tile_explorer
from kernels.figures.ground_truth import access_table, counter_table, reason_table
from kernels.figures.html import Markup, data_table, figure
from kernels.figures.mutants import mutant_list, rewrite_list, verdict_summary
from kernels.figures.operators import comparison_table, contract_table, limit_chart, overview_table, plan_table
from kernels.figures.ownership import MASKED, NOBODY, ownership_grid, ownership_strip
from kernels.figures.results import compile_table, result_table
from kernels.figures.roofline import roofline
from kernels.figures.sanitizers import sanitizer_block, sanitizer_summary, sanitizer_table
from kernels.figures.stepper import stepper
from kernels.figures.strides import view_figure
from kernels.figures.tiles import tile_walk
from kernels.figures.trees import reduction_tree
from kernels.figures.verdicts import verdict_list
from kernels.figures.warps import request_figure, thread_table, timeline

__all__ = [
    "MASKED",
    "NOBODY",
    "Markup",
    "access_explorer",
    "access_table",
    "bank_figure",
    "bank_tile",
    "bar_chart",
    "case_table",
    "choice_table",
    "comparison_table",
    "compile_table",
    "contract_table",
    "counter_table",
    "data_table",
    "divergence_figure",
    "enough_chart",
    "error_budget_chart",
    "error_budget_table",
    "exercise_answers",
    "exercise_lists",
    "exercise_overview",
    "figure",
    "limit_chart",
    "line_chart",
    "merge_explorer",
    "mutant_list",
    "overview_table",
    "ownership_grid",
    "ownership_strip",
    "plan_table",
    "reason_table",
    "reduction_tree",
    "request_figure",
    "result_table",
    "rewrite_list",
    "roofline",
    "roofline_explorer",
    "sanitizer_block",
    "sanitizer_summary",
    "sanitizer_table",
    "score_table",
    "stepper",
    "thread_table",
    "tile_explorer",
    "tile_walk",
    "timeline",
    "verdict_list",
    "verdict_summary",
    "view_figure",
]
