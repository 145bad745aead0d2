"""A stepper goes through the engine and Markdown unharmed: source, data and table are on the page as they were made."""

import json
import re

from lessons_project import fence

BLOCK = """\
import numpy as np
from kernels.figures import stepper
from kernels.trace import Buffer, Launch, Recorder

recorder = Recorder()
recorder.launch(Launch("k", (1, 1, 1), (64, 1, 1), "cuda"))
recorder.buffer(Buffer("</script> *x* `y` _z_ <b>", 4, (64,)))
site = recorder.site("k.cu", 4)
recorder.add(launch=0, block=0, thread=np.arange(64), what=0, buffer=0, element=np.arange(64), size=4, site=site)
source = "// # no *heading* \\n\\n    if (a < b && c) {\\n\\t  x_[i] = `y_`;\\n\\n# no heading\\n}\\n"
print(stepper(recorder.trace(), source=source, caption="# *no* heading"))"""


def test_a_stepper_on_a_page_is_what_the_block_printed(project):
    text = fence(BLOCK, 'step html="1"')
    project.page("index", "# Page\n\nBefore.\n\n" + text + "\nAfter *it*.\n")
    done = project.lessons("build", "--mode", "run", "--no-strict")
    html = project.html()
    assert done.counts()["failed"] == 0, done.text
    data = json.loads(re.search(r"data-steps='([^']*)'", html)[1])
    assert data["buffers"][0]["name"] == "</script> *x* `y` _z_ <b>"
    assert data["blocks"][0]["steps"] == [[4, 0, 0, 4, 0, 1, [[0, 1, 64, 0, 1]], []]]
    lines = re.findall(r'<span data-line="(\d)">(.*?)</span>', html)
    assert lines == [
        ("3", "    if (a &lt; b &amp;&amp; c) {"), ("4", "      x_[i] = `y_`;"), ("5", ""), ("6", "# no heading"),
    ]  # fmt: skip
    assert html.count("<table") == html.count("</table>") == 1 and html.count("</figure>") == 1
    assert "threads 0–63 → &lt;/script&gt; *x* `y` _z_ &lt;b&gt;[0]" in html
    assert "<em>it</em>" in html and "<em>" not in html.partition("<figure")[2].partition("</figure>")[0]
